// Input: an insert. Either it stays as it is, or the patched message is well-formed, its lengths
// are right, and every document has its values: none is missing, and none is a zero that a rule
// replaces. FieldFinder finds what Elements does.

#include "fuzz.hpp"
#include "support/fake_clock.hpp"
#include "support/found_by_walk.hpp"
#include "support/request.hpp"
#include "support/rule_set.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;

std::shared_ptr<const rewrite::RuleSet> rules() {
  constexpr auto kZero = rewrite::Assign::missing_or_zero;
  return test::rule_set_of(test::rule("shop.*", "_id", kZero),
                           test::rule("shop.o*", "number", kZero), test::rule("shop.o*", "a.b.c"),
                           test::rule("shop.o*", "a.b.d", kZero), test::rule("shop.o*", "a.e"));
}

/// Gives the patched message to another exchange, which must find nothing left to change.
void check(const rewrite::action::Send& send, rewrite::Namespaces& namespaces,
           const rewrite::Context& context, rewrite::Workspace& workspace) {
  Buffer out;
  send.message->copy(send.original, 0, out);
  require(out.size() == send.message->size());
  require(load_i32(out.data()) == static_cast<std::int32_t>(out.size()));
  const auto view = wire::OpMsgView::parse(out.view());
  require(static_cast<bool>(view));
  rewrite::Exchange again;
  require(std::holds_alternative<rewrite::action::Relay>(
      test::begin(again, out.view(), nullptr, namespaces, context, workspace)));
}

void compare(Bytes message) {
  static const std::string_view kNames[] = {"_id", "a", "number", "x", "eightlen", "nine-long"};
  const auto view = wire::OpMsgView::parse(message);
  const auto command = view ? rewrite::WriteCommand::read(*view) : std::nullopt;
  if (!command) return;
  bson::FieldFinder finder(kNames);  // learns from each document, and meets it again
  for (int round = 0; round < 4; ++round) {
    rewrite::Statements documents(*command);
    Bytes before;
    while (const auto document = documents.next()) {
      bson::FieldFinder alone(kNames);  // has the shape of the document before
      for (int i = 0; i < 3 && !before.empty(); ++i) {
        static_cast<void>(test::found_by_finder(before, kNames, alone));
      }
      const std::string expected = test::found_by_walk(*document, kNames);
      require(test::found_by_finder(*document, kNames, finder) == expected);
      require(test::found_by_finder(*document, kNames, alone) == expected);
      before = *document;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < wire::kHeaderSize) return 0;
  static const test::FakeClock clock;
  static rewrite::Namespaces filling(test::rule_set());
  static rewrite::Namespaces replacing(rules());
  rewrite::Namespaces& namespaces = size % 2 == 0 ? filling : replacing;
  static rewrite::Workspace workspace;
  const rewrite::Context context{clock, system_random()};
  Buffer message;
  message.append({data, size});
  store_i32(message.data(), static_cast<std::int32_t>(size));
  compare(message.view());
  rewrite::Exchange exchange;
  const auto action =
      test::begin(exchange, message.view(), nullptr, namespaces, context, workspace);
  const auto* send = std::get_if<rewrite::action::Send>(&action);
  if (send != nullptr && !exchange.is_hello() && !exchange.is_next() &&
      exchange.facts().refused == 0)
    check(*send, namespaces, context, workspace);
  return 0;
}
