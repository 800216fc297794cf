#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idproxy::rewrite {

/// Why an upsert, or another command that stores documents, goes to the server without a value of a
/// rule (docs/duplicates.md#upserts, #writes-past-the-rules).
enum class ForwardReason : std::uint8_t {
  configured,               ///< the rule says `upserts: forward`
  replacement,              ///< a replacement, in which only the client can put `_id`
  replacement_loses_field,  ///< a replacement without the field: a matching document loses its own
  empty_update,             ///< {}, which mongod takes for a replacement
  filter_names_field,       ///< the filter names the field, a part of its path or something below
  update_names_field,       ///< the update does so
  pipeline_replaces,        ///< a pipeline with a stage that can remove the value again
  filter_fixes_id,  ///< a pipeline whose filter names `_id`: it cannot tell an insert from a match
  /// The value depends on fields of the document (scope, template) that the upsert does not fix.
  depends_on_document,
  reserved,      ///< the value must be reserved for a document whose `_id` is known
  too_large,     ///< the statement is so large that a value might make it exceed the limit
  unknown_form,  ///< a form that the proxy does not know
  merge,         ///< no upsert: an aggregation with $merge, which the server writes itself
  out,           ///< the same with $out
  apply_ops,     ///< no upsert: an insert within applyOps
  time_series,   ///< no upsert: an insert into a time-series collection
};
inline constexpr std::size_t kForwardReasons =
    static_cast<std::size_t>(ForwardReason::time_series) + 1;

/// The reason as metrics, status and log spell it, such as "filter_names_field".
[[nodiscard]] std::string_view name_of(ForwardReason reason);
/// The remedy, as half a sentence for the log and for errors. `field`: the rule's.
[[nodiscard]] std::string_view way_out_of(ForwardReason reason, std::string_view field);

}  // namespace idproxy::rewrite
