#include "net/tls_window.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace idproxy::net::tls {
namespace {

Window& window_of(BIO* bio) {
  return *static_cast<Window*>(BIO_get_data(bio));
}

int read(BIO* bio, char* to, std::size_t size, std::size_t* read) {
  BIO_clear_retry_flags(bio);
  const Window& window = window_of(bio);
  if (window.shut) return 0;
  if (window.in == nullptr || window.in->empty()) {
    BIO_set_retry_read(bio);
    return 0;
  }
  *read = std::min(size, window.in->size());
  std::memcpy(to, window.in->data(), *read);
  *window.in = window.in->subspan(*read);
  return 1;
}

int write(BIO* bio, const char* from, std::size_t size, std::size_t* written) {
  BIO_clear_retry_flags(bio);
  const Window& window = window_of(bio);
  if (window.out == nullptr) return 0;
  try {
    window.out->append(as_bytes({from, size}));
  } catch (const std::bad_alloc&) {  // must not propagate through OpenSSL's frames
    return 0;
  }
  *written = size;
  return 1;
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

OwnedBioMethod make_method() {
  OwnedBioMethod method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "window"));
  if (method == nullptr) throw std::bad_alloc();
  BIO_meth_set_read_ex(method.get(), read);
  BIO_meth_set_write_ex(method.get(), write);
  BIO_meth_set_ctrl(method.get(), control);
  BIO_meth_set_create(method.get(), create);
  return method;
}

}  // namespace

OwnedBio open_bio(Window& window) {
  static const OwnedBioMethod method = make_method();
  OwnedBio bio(BIO_new(method.get()));
  if (bio) BIO_set_data(bio.get(), &window);
  return bio;
}

}  // namespace idproxy::net::tls
