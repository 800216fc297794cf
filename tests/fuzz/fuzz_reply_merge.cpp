// Merges replies to the commands of one batch. Input: pieces of {uint8 documents, uint24 length,
// bytes}, each a reply to a command with some of the documents; of the first piece's documents,
// 0x08 says that the replies are those to a bulkWrite, 0x10 that its client wants errors only. The
// merged reply must be well-formed with ascending errors and the sum of all `n`; each other field
// must come from a reply.

#include <set>

#include "fuzz.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "rewrite/bulk_write.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;

constexpr std::int32_t kStored = 4711;

/// The documents that `event` stands for: some of 64, ascending.
std::vector<std::int32_t> documents_of(std::uint8_t event) {
  std::vector<std::int32_t> documents;
  for (std::int32_t i = event >> 6; i < 64; i += 1 + (event & 7)) documents.push_back(i);
  return documents;
}

rewrite::ReplyForm bulk_of(std::uint8_t event) {
  if ((event & 0x08) == 0) return rewrite::ReplyForm::of_statements;
  return (event & 0x10) == 0 ? rewrite::ReplyForm::all_results : rewrite::ReplyForm::errors_only;
}

std::optional<rewrite::WriteReply> read(rewrite::ReplyForm bulk, const wire::OpMsgView& message,
                                        std::size_t statements) {
  return bulk == rewrite::ReplyForm::of_statements
             ? rewrite::WriteReply::read(message.body(), statements)
             : rewrite::read_bulk_reply(message.body(), statements);
}

/// What the merged reply must contain: the sum of `n`, and elements from any of the replies.
class Inputs {
 public:
  explicit Inputs(rewrite::ReplyForm bulk) : bulk_(bulk) {}

  void see(const wire::OpMsgView& message, std::int64_t n, bool has_n) {
    n_ += n;
    has_n_ = has_n;
    bson::Elements fields(message.body());
    while (const auto field = fields.next()) elements_.insert(text(*field));
  }
  void check(const wire::OpMsgView& merged) const {
    const auto reply = read(bulk_, merged, 64);
    require(reply && reply->ok);
    require(reply->n.has_value() == has_n_ && (!has_n_ || *reply->n == n_));
    bson::Elements fields(merged.body());
    while (const auto field = fields.next()) {
      std::set<std::string_view> made = {"n",        "writeErrors", "retriedStmtIds", "nModified",
                                         "upserted", "errorLabels", "idproxy"};
      if (bulk_ != rewrite::ReplyForm::of_statements) {
        made.insert({"cursor", "nErrors", "nInserted", "nMatched", "nUpserted", "nDeleted"});
      }
      require(made.contains(field->key) || elements_.contains(text(*field)));
    }
    require(!fields.malformed());
  }

 private:
  static std::string text(const bson::Element& field) {
    return std::string(as_text({field.begin, field.end()}));
  }

  rewrite::ReplyForm bulk_;
  std::int64_t n_ = 0;
  bool has_n_ = false;  // of the last reply
  std::set<std::string> elements_;
};

/// Adds a reply if Batch would accept it; else returns false.
bool add(Bytes bytes, std::span<const std::int32_t> documents, rewrite::ReplyForm bulk,
         rewrite::ReplyMerge& merge, Inputs& inputs) {
  const auto message = wire::OpMsgView::parse(bytes);
  if (!message) return false;
  const auto reply = read(bulk, *message, documents.size());
  if (!reply || !reply->ok || reply->n.value_or(0) < 0 || reply->n.value_or(0) > 100'000 ||
      reply->n_upserted > 100'000)
    return false;
  merge.add(*message, *reply, documents);
  inputs.see(*message, reply->n.value_or(0), reply->n.has_value());
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rewrite::ReplyForm bulk = size > 0 ? bulk_of(data[0]) : rewrite::ReplyForm::of_statements;
  rewrite::ReplyMerge merge(bulk);
  Inputs inputs(bulk);
  bool any = false;
  for (Bytes rest(data, size); rest.size() >= 4 + wire::kHeaderSize;) {
    const std::size_t length = rest[1] + (std::size_t{rest[2]} << 8) + (std::size_t{rest[3]} << 16);
    Buffer message;
    message.append(rest.subspan(4).first(std::min(length, rest.size() - 4)));
    const auto documents = documents_of(rest[0]);
    rest = rest.subspan(4 + message.size());
    if (message.size() < wire::kHeaderSize) continue;
    store_i32(message.data(), static_cast<std::int32_t>(message.size()));
    any = add(message.view(), documents, bulk, merge, inputs) || any;
  }
  if (!any) return 0;
  const std::vector<rewrite::RefusedDocument> refused = {{1, ErrorCode::path_not_viable, "refused"},
                                                         {5, ErrorCode::bad_value, ""}};
  const std::vector<rewrite::Assigned> assigned = {{0, "_id", bson::Type::int32, Bytes(data, 4)},
                                                   {1, "_id", bson::Type::int32, Bytes(data, 4)}};
  Buffer out;
  merge.append(kStored, refused, assigned, out);
  const auto merged = wire::OpMsgView::parse(out.view());
  require(merged && merged->header().response_to == kStored);
  require(merged->header().message_length == static_cast<std::int32_t>(out.size()));
  inputs.check(*merged);
  return 0;
}
