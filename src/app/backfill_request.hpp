#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "app/backfill_commands.hpp"
#include "idproxy/app/backfill_request.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app {

/// What is wrong with the options themselves, for people; empty: nothing.
[[nodiscard]] std::string fault_of(const BackfillRequest& request);

/// What is wrong with the options for this rule, for people; empty: nothing.
[[nodiscard]] std::string fault_of(const BackfillRequest& request, const rewrite::Rule& rule);

/// The position of the rule that gives the values, or why there is none.
[[nodiscard]] boost::system::result<std::size_t, std::string> rule_for(
    const BackfillRequest& request, const std::vector<rewrite::Rule>& rules);

/// Of a request without fault and its rule in the collection.
[[nodiscard]] BackfillTarget target_of(const BackfillRequest& request,
                                       const rewrite::Assignment& assignment);
[[nodiscard]] BackfillOrder order_of(const BackfillRequest& request);

}  // namespace idproxy::app
