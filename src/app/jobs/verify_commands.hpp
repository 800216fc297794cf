#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/jobs/verify_judge.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"

/// The commands of a verification, all of which only read.
namespace idproxy::app::jobs {

/// The documents that a verification is about.
struct VerifyTarget {
  id_store::Namespace ns;
  std::string field;                  ///< dotted path
  std::vector<std::string> scope{};   ///< fields whose values tell sequences apart
  std::vector<std::string> beside{};  ///< further fields to read
  id_store::mongo::Document among{};  ///< a filter; empty: all documents
  id_store::mongo::Document when{};   ///< those that are to have the field; empty: all
};

/// The order in which documents are read: by the scope, and then by the field.
struct VerifyOrder {
  std::vector<std::string> keys;
  std::string index;  ///< the name of the one that has them so; empty: the server sorts
};

/// The order that one of these indexes has, as listIndexes describes them.
[[nodiscard]] VerifyOrder verify_order(const VerifyTarget& target,
                                       std::span<const id_store::mongo::Document> indexes);

[[nodiscard]] id_store::mongo::Document count_verified(const VerifyTarget& target);
[[nodiscard]] id_store::mongo::Document count_without_field(const VerifyTarget& target);
/// Finds the _ids of the first ones.
[[nodiscard]] id_store::mongo::Document find_without_field(const VerifyTarget& target);
/// Finds those with the field. `concern`: the level to read with; empty: the server's own.
[[nodiscard]] id_store::mongo::Document find_verified(const VerifyTarget& target,
                                                      const VerifyOrder& order,
                                                      const std::string& concern);
/// Finds the documents of a sequence that have one of these numbers.
[[nodiscard]] id_store::mongo::Document find_numbers(const VerifyTarget& target,
                                                     const VerifiedSequence& sequence,
                                                     const VerifyRuns::Gap& among);

}  // namespace idproxy::app::jobs
