#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace idproxy {

/// What an error code of a server means to the proxy. Bits of ServerCode::traits.
struct CodeTrait {
  enum Bit : unsigned {
    /// This server takes no commands now; another one, or the same one a moment later, may.
    unavailable = 1U << 0U,
    /// The same command may succeed a moment later: it was interrupted, or something was in the
    /// way. Any other refusal says that the server cannot do what was asked.
    transient = 1U << 1U,
    /// A driver finds the primary again, or waits, and repeats its write: the specification of
    /// retryable writes, which does not list LegacyNotPrimary.
    retryable = 1U << 2U,
    not_primary = 1U << 3U,     ///< the server has not executed the command
    cursor_lost = 1U << 4U,     ///< a query that has begun can be read from where it was
    not_known = 1U << 5U,       ///< the server does not know the command, or an option of it
    rejects_field = 1U << 6U,   ///< the same of a field in a command, if the text names it
    stores_nothing = 1U << 7U,  ///< of a whole write: none of its statements is stored
    denies = 1U << 8U,          ///< of a statement: it is certainly not stored, now or ever
    too_large = 1U << 9U,       ///< a document, or what an update makes of it
    /// The text is about commands, their options, collections, users or servers, and has nothing of
    /// a document.
    no_values = 1U << 10U,
    away = unavailable | transient | no_values,
    gone = away | retryable,
  };
};

// The codes that the proxy knows, of servers and of its own errors, with MongoDB's numbers and
// names (src/mongo/base/error_codes.yml). This is the only list of them.
#define IDPROXY_SERVER_CODES(CODE)                                                              \
  CODE(1, internal_error, "InternalError", transient)                                           \
  CODE(2, bad_value, "BadValue", denies | rejects_field)                                        \
  CODE(6, host_unreachable, "HostUnreachable", gone)                                            \
  CODE(7, host_not_found, "HostNotFound", gone)                                                 \
  CODE(8, unknown_error, "UnknownError", transient)                                             \
  CODE(9, failed_to_parse, "FailedToParse", not_known | rejects_field | denies)                 \
  CODE(13, unauthorized, "Unauthorized", stores_nothing | denies)                               \
  CODE(14, type_mismatch, "TypeMismatch", rejects_field | denies)                               \
  CODE(18, authentication_failed, "AuthenticationFailed", no_values)                            \
  CODE(20, illegal_operation, "IllegalOperation", no_values)                                    \
  CODE(22, invalid_bson, "InvalidBSON", 0)                                                      \
  CODE(24, lock_timeout, "LockTimeout", transient)                                              \
  CODE(26, namespace_not_found, "NamespaceNotFound", no_values)                                 \
  CODE(27, index_not_found, "IndexNotFound", 0)                                                 \
  CODE(28, path_not_viable, "PathNotViable", denies)                                            \
  CODE(40, conflicting_update_operators, "ConflictingUpdateOperators", denies)                  \
  CODE(43, cursor_not_found, "CursorNotFound", transient | cursor_lost)                         \
  CODE(46, lock_busy, "LockBusy", transient)                                                    \
  CODE(50, max_time_ms_expired, "MaxTimeMSExpired", transient | no_values)                      \
  CODE(52, dollar_prefixed_field_name, "DollarPrefixedFieldName", denies)                       \
  CODE(53, invalid_id_field, "InvalidIdField", denies)                                          \
  CODE(54, not_single_value_field, "NotSingleValueField", denies)                               \
  CODE(56, empty_field_name, "EmptyFieldName", denies)                                          \
  CODE(57, dotted_field_name, "DottedFieldName", denies)                                        \
  CODE(59, command_not_found, "CommandNotFound", no_values)                                     \
  CODE(61, shard_key_not_found, "ShardKeyNotFound", 0)                                          \
  CODE(63, stale_shard_version, "StaleShardVersion", transient)                                 \
  CODE(64, write_concern_failed, "WriteConcernFailed", transient | no_values)                   \
  CODE(66, immutable_field, "ImmutableField", denies)                                           \
  CODE(67, cannot_create_index, "CannotCreateIndex", no_values)                                 \
  CODE(72, invalid_options, "InvalidOptions", not_known | rejects_field | no_values)            \
  CODE(73, invalid_namespace, "InvalidNamespace", stores_nothing)                               \
  CODE(79, unknown_write_concern, "UnknownReplWriteConcern", no_values)                         \
  CODE(85, index_options_conflict, "IndexOptionsConflict", 0)                                   \
  CODE(86, index_key_specs_conflict, "IndexKeySpecsConflict", 0)                                \
  CODE(89, network_timeout, "NetworkTimeout", gone)                                             \
  CODE(91, shutdown_in_progress, "ShutdownInProgress", gone)                                    \
  CODE(96, operation_failed, "OperationFailed", 0)                                              \
  CODE(100, unsatisfiable_write_concern, "UnsatisfiableWriteConcern", no_values)                \
  CODE(112, write_conflict, "WriteConflict", transient)                                         \
  CODE(115, command_not_supported, "CommandNotSupported", not_known | no_values)                \
  CODE(117, conflicting_operation, "ConflictingOperationInProgress", transient)                 \
  CODE(121, document_validation_failure, "DocumentValidationFailure", denies)                   \
  CODE(123, not_a_replica_set, "NotAReplicaSet", no_values)                                     \
  CODE(133, read_preference_failed, "FailedToSatisfyReadPreference", no_values)                 \
  CODE(134, majority_not_available, "ReadConcernMajorityNotAvailableYet", gone)                 \
  CODE(136, capped_position_lost, "CappedPositionLost", transient)                              \
  CODE(148, majority_not_enabled, "ReadConcernMajorityNotEnabled", no_values)                   \
  CODE(150, stale_epoch, "StaleEpoch", transient)                                               \
  CODE(166, command_not_supported_on_view, "CommandNotSupportedOnView",                         \
       stores_nothing | denies | no_values)                                                     \
  CODE(168, invalid_pipeline_operator, "InvalidPipelineOperator", no_values)                    \
  CODE(175, query_plan_killed, "QueryPlanKilled", transient | cursor_lost)                      \
  CODE(189, primary_stepped_down, "PrimarySteppedDown", gone)                                   \
  CODE(202, network_interface_timeout, "NetworkInterfaceExceededTimeLimit", transient)          \
  CODE(215, database_drop_pending, "DatabaseDropPending", transient | no_values)                \
  CODE(225, transaction_too_old, "TransactionTooOld", transient)                                \
  CODE(237, cursor_killed, "CursorKilled", transient | cursor_lost)                             \
  CODE(238, not_implemented, "NotImplemented", not_known | no_values)                           \
  CODE(241, conversion_failure, "ConversionFailure", 0)                                         \
  CODE(246, snapshot_unavailable, "SnapshotUnavailable", transient)                             \
  CODE(251, no_such_transaction, "NoSuchTransaction", transient)                                \
  CODE(262, exceeded_time_limit, "ExceededTimeLimit", gone)                                     \
  CODE(263, operation_not_supported_in_transaction, "OperationNotSupportedInTransaction", 0)    \
  CODE(276, index_build_aborted, "IndexBuildAborted", transient)                                \
  CODE(291, no_query_execution_plans, "NoQueryExecutionPlans", 0)                               \
  CODE(303, feature_not_supported, "FeatureNotSupported", not_known | no_values)                \
  CODE(322, api_version_error, "APIVersionError", no_values)                                    \
  CODE(323, api_strict_error, "APIStrictError", rejects_field | no_values)                      \
  CODE(352, unsupported_op_query_command, "UnsupportedOpQueryCommand", no_values)               \
  CODE(361, collection_uuid_mismatch, "CollectionUUIDMismatch", denies)                         \
  CODE(9001, socket_exception, "SocketException", gone)                                         \
  CODE(10058, legacy_not_primary, "LegacyNotPrimary", away)                                     \
  CODE(10107, not_writable_primary, "NotWritablePrimary", gone | not_primary)                   \
  CODE(10334, bson_object_too_large, "BSONObjectTooLarge", denies | too_large)                  \
  CODE(11000, duplicate_key, "DuplicateKey", transient)                                         \
  CODE(11600, interrupted_at_shutdown, "InterruptedAtShutdown", gone)                           \
  CODE(11601, interrupted, "Interrupted", transient | cursor_lost)                              \
  CODE(11602, state_change, "InterruptedDueToReplStateChange", gone | cursor_lost)              \
  CODE(12587, background_operation_in_progress, "BackgroundOperationInProgressForNamespace", 0) \
  CODE(13388, stale_config, "StaleConfig", transient)                                           \
  CODE(13435, not_primary_no_secondary_ok, "NotPrimaryNoSecondaryOk", gone | not_primary)       \
  CODE(13436, not_primary_or_secondary, "NotPrimaryOrSecondary", gone)                          \
  CODE(14031, out_of_disk_space, "OutOfDiskSpace", transient)                                   \
  CODE(16755, no_geo_keys, "Location16755", denies)                                             \
  CODE(17419, updated_too_large, "Location17419", denies | too_large)                           \
  CODE(17420, updated_in_place_too_large, "Location17420", denies | too_large)                  \
  CODE(40324, unrecognized_stage, "Location40324", no_values)                                   \
  CODE(40413, idl_duplicate_field, "Location40413", 0)                                          \
  CODE(40414, idl_missing_field, "Location40414", no_values)                                    \
  CODE(40415, idl_unknown_field, "Location40415", not_known | rejects_field | no_values)        \
  /* $collStats of 4.4: NamespaceNotFound */                                                    \
  CODE(40481, nothing_to_count, "Location40481", 0)                                             \
  /* a findAndModify has inserted in an earlier attempt (observed, 4.4 to 6.0) */               \
  CODE(40608, was_upsert, "Location40608", 0)

enum class ErrorCode : std::int32_t {
#define IDPROXY_ENUMERATOR(number, code, name, traits) code = (number),
  IDPROXY_SERVER_CODES(IDPROXY_ENUMERATOR)
};
[[nodiscard]] constexpr bool operator==(std::int64_t code, ErrorCode its) {
  return code == static_cast<std::int64_t>(its);
}

struct ServerCode {
  ErrorCode code;
  std::string_view name;
  unsigned traits;
};
inline constexpr auto kServerCodes = [] {
  using enum CodeTrait::Bit;
#define IDPROXY_ROW(number, code, name, traits) ServerCode{ErrorCode::code, name, (traits)},
  return std::array{IDPROXY_SERVER_CODES(IDPROXY_ROW)};
}();
#undef IDPROXY_ROW
#undef IDPROXY_ENUMERATOR
#undef IDPROXY_SERVER_CODES

/// The code's row; one without traits, "UnknownError", for a code that is not in the table.
[[nodiscard]] constexpr ServerCode server_code(std::int64_t code) {
  for (const ServerCode& each : kServerCodes) {
    if (code == each.code) return each;
  }
  return {ErrorCode{static_cast<std::int32_t>(code)}, "UnknownError", 0};
}
[[nodiscard]] constexpr bool is(std::int64_t code, CodeTrait::Bit trait) {
  return (server_code(code).traits & trait) != 0;
}

}  // namespace idproxy
