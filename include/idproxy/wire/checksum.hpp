#pragma once

#include <boost/crc.hpp>

#include "idproxy/base/bytes.hpp"

namespace idproxy::wire {

/// CRC-32C (Castagnoli) of all earlier bytes, with which an OP_MSG ends if it has checksumPresent.
class Checksum {
 public:
  void add(Bytes bytes) { crc_.process_bytes(bytes.data(), bytes.size()); }
  [[nodiscard]] std::uint32_t value() const { return crc_.checksum(); }

 private:
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc_;
};

}  // namespace idproxy::wire
