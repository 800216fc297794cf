// Input: a server's reply to hello, as a whole message. The reply to the client must name only
// listeners of the proxy, must be readable, and must not differ in anything else. Whatever the
// reply says about its set, the proxy must not want more listeners than a set can have members.

#include <string>

#include "fuzz.hpp"
#include "idproxy/base/bytes.hpp"
#include "idproxy/rewrite/hello.hpp"
#include "idproxy/rewrite/topology.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;

bool is_listener(const std::string& name) {
  return name == "proxy:1" || name == "proxy:2";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < wire::kHeaderSize) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  store_i32(reinterpret_cast<std::uint8_t*>(bytes.data()), static_cast<std::int32_t>(size));
  const Bytes message = as_bytes(bytes);
  const auto said = rewrite::read_hello_reply(message);
  if (!said) return 0;

  rewrite::Topology topology;
  const auto server = topology.add("db1:1", "proxy:1", rewrite::ServerDescription::Origin::uri);
  topology.add("db2:1", "proxy:2", rewrite::ServerDescription::Origin::member, "rs0");
  topology.heard(server, *said);
  std::size_t possible = 0;
  for (const auto& missing : topology.missing()) possible += missing.possible ? 1 : 0;
  require(possible < rewrite::Topology::kMostMembers);
  static_cast<void>(topology.superfluous());

  const auto members = topology.members();
  require(members->agrees(server, *said));
  wire::PatchedMessage out;
  Buffer mapped;
  if (rewrite::patch_hello_reply(message, *members, out)) {
    out.copy(message, 0, mapped);
    require(mapped.size() == out.size());
  } else {
    mapped.append(message);
  }
  auto told = rewrite::read_hello_reply(mapped.view());
  require(told.has_value());
  for (const std::string& member : told->members) require(is_listener(member));
  require(told->me.empty() || is_listener(told->me));
  require(!rewrite::patch_hello_reply(mapped.view(), *members, out));
  told->me = said->me;
  told->members = said->members;
  told->hosts = said->hosts;
  told->arbiters = said->arbiters;
  require(*told == *said);
  return 0;
}
