// Input: a message. The view of an OP_MSG must stay inside it, and patching a hello must keep its
// ids and opcode and leave nothing to patch.

#include <cstring>

#include "fuzz.hpp"
#include "idproxy/rewrite/hello.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/op_query.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;

/// True if the message is a hello and gets patched.
bool patch(Bytes message, rewrite::X509 x509, wire::Compressors allowed,
           wire::PatchedMessage& out) {
  const auto command = rewrite::Command::find(message);
  if (!command || !rewrite::is_hello(command->name)) return false;
  return rewrite::patch_hello_request(message, *command, x509, allowed, out);
}

void check_patched_hello(Bytes message, rewrite::X509 x509, wire::Compressors allowed,
                         const wire::PatchedMessage& patched) {
  Buffer out;
  patched.copy(message, 0, out);
  require(out.size() == patched.size());
  require(load_i32(out.data()) == static_cast<std::int32_t>(out.size()));
  require(std::memcmp(out.data() + 4, message.data() + 4, 12) == 0);
  const auto command = rewrite::Command::find(out.view());
  require(command && rewrite::is_hello(command->name));
  wire::PatchedMessage again;
  require(!rewrite::patch_hello_request(out.view(), *command, x509, allowed, again));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < wire::kHeaderSize) return 0;
  Buffer message;
  message.append({data, size});
  store_i32(message.data(), static_cast<std::int32_t>(size));

  if (const auto view = wire::OpMsgView::parse(message.view())) {
    require(view->body().data() >= message.data());
    require(view->body().data() + view->body().size() <= message.data() + message.size());
  }
  for (const auto x509 : {rewrite::X509::allowed, rewrite::X509::refused}) {
    for (const auto allowed : {wire::Compressors(), wire::Compressors::all()}) {
      wire::PatchedMessage patched;
      if (patch(message.view(), x509, allowed, patched)) {
        check_patched_hello(message.view(), x509, allowed, patched);
      }
    }
  }
  static_cast<void>(wire::OpQueryView::parse(message.view()));
  static_cast<void>(rewrite::read_hello_reply(message.view()));
  return 0;
}
