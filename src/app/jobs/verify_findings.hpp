#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace idproxy::app::jobs {

/// What a verification looks for, in the order of its report.
enum class VerifyKind {
  missing,
  null,
  duplicate,
  wrong_type,
  wrong_form,
  wrong_check,
  no_sequence,
  gap,
  beyond_counter,
  beyond_max,
};

/// One finding.
struct VerifyExample {
  std::string value{};      ///< as mongosh writes it; of gaps "1002 to 1004"; empty: none
  std::string id{};         ///< {"_id": …} as JSON; empty: it is about several documents
  std::string sequence{};   ///< whose value it is, see VerifySequence::name
  std::uint64_t count = 1;  ///< documents with a duplicate, numbers of a gap
};

/// All findings of one kind.
struct VerifyFound {
  static constexpr std::size_t kExamples = 20;

  std::uint64_t count = 0;
  std::vector<VerifyExample> examples{};  ///< the first kExamples
  std::string remedy{};                   ///< for the first one; empty: none
};

/// The numbers of one sequence.
struct VerifySequence {
  std::string name{};  ///< {"s": {"tenant": "a"}, "p": "2026"}; empty: the rule has one sequence
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::uint64_t numbers = 0;
  std::uint64_t missing = 0;  ///< between the first and the last one
  bool is_counted = true;     ///< false: hidden numbers with too many gaps to count either
};

/// What documents have in the field of a rule.
struct VerifyFindings {
  static constexpr std::size_t kMostSequences = 1000;

  std::uint64_t documents = 0;                   ///< with the field
  std::uint64_t allowed = 0;                     ///< of these, what VerifyAllowed includes
  std::map<VerifyKind, VerifyFound> kinds{};     ///< each kind that the rule can have
  std::map<std::string, std::uint64_t> types{};  ///< documents of another type, by its alias
  /// Numbers of another numeric type than the rule's, by its alias: an index takes them for equal.
  std::map<std::string, std::uint64_t> number_types{};
  std::uint64_t sequences = 0;
  std::vector<VerifySequence> first_sequences{};  ///< kMostSequences at most

  [[nodiscard]] std::uint64_t count() const {
    std::uint64_t all = 0;
    for (const auto& [kind, found] : kinds) all += found.count;
    return all;
  }
};

}  // namespace idproxy::app::jobs
