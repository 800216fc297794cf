#include "idproxy/base/digest.hpp"

#include <openssl/evp.h>

#include <array>
#include <boost/algorithm/hex.hpp>
#include <iterator>
#include <stdexcept>

namespace idproxy {

std::string sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL has no SHA-256");
  }
  std::string hex;
  boost::algorithm::hex_lower(digest.begin(), digest.begin() + size, std::back_inserter(hex));
  return hex;
}

}  // namespace idproxy
