#pragma once

#include <cstdint>

namespace idproxy::bson {

/// The type byte of an element (bsonspec.org, version 1.1).
enum class Type : std::uint8_t {
  number_double = 0x01,
  string = 0x02,
  document = 0x03,
  array = 0x04,
  binary = 0x05,
  undefined = 0x06,
  object_id = 0x07,
  boolean = 0x08,
  date = 0x09,
  null = 0x0a,
  regex = 0x0b,
  db_pointer = 0x0c,
  code = 0x0d,
  symbol = 0x0e,
  code_with_scope = 0x0f,
  int32 = 0x10,
  timestamp = 0x11,
  int64 = 0x12,
  decimal128 = 0x13,
  max_key = 0x7f,
  min_key = 0xff,
};

}  // namespace idproxy::bson
