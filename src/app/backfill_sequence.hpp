#pragma once

#include <boost/system/result.hpp>
#include <memory>
#include <string>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::app {

/// The sequence of a rule that gives a document from before its value, or why none does, for people
/// and without the document's values. `document`: with Sequences::fields() and `period_from`, the
/// dotted path of a date or an ObjectId, whose time counts instead of now; empty: now does.
[[nodiscard]] boost::system::result<std::shared_ptr<ids::Strategy>, std::string> sequence_of(
    ids::Sequences& sequences, const std::string& period_from, Bytes document);

}  // namespace idproxy::app
