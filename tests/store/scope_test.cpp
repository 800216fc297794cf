#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "counter_fixture.hpp"
#include "id_store/index.hpp"

/// Counters of one of several sequences: of a scope, or of a period.
namespace idproxy::id_store::test {
namespace scope_test {

using testing::HasSubstr;

class ScopeTest : public CounterTest {
 protected:
  ScopeTest() {
    const Document scope = Document().add("tenant", "a");
    const Document key = Document().add("c", "orders.number").add("s", scope);
    spec.place.key = std::string(as_text(key.bytes()));
    spec.place.key_is = CounterPlace::KeyIs::document;
    fields.front().scope = std::string(as_text(scope.bytes()));
  }
  void order(const char* tenant, std::int64_t number) {
    database.insert("orders", Document().add("tenant", tenant).add("number", number));
  }
  void order(const std::string& json) { database.insert("orders", json); }
  void compound_index() {
    bool is_new = false;
    const mongo::Reply made =
        make_index(client, {database.name(), "orders"}, {"number", type(), {{"tenant"}}}, is_new);
    ASSERT_TRUE(made.ok() && is_new) << made.message;
  }
  void template_of(std::uint32_t pad, std::string prefix) {
    fields.front().format = {NumberFormat::Output::string, pad, std::move(prefix), ""};
  }
  [[nodiscard]] ValueType type() const {
    return fields.front().format.output == NumberFormat::Output::string ? ValueType::string
                                                                        : ValueType::number;
  }
  /// The counter's whole document.
  std::string stored() {
    std::string text;
    (void)client.read_all(database.name(), Document().add("find", "counters"), [&](Bytes found) {
      char* json = bson_as_relaxed_extended_json(Document(found).get(), nullptr);
      text += json;
      bson_free(json);
      return true;
    });
    return text;
  }

  mongo::Client client = pool().client();
};

TEST_F(ScopeTest, HasADocumentOfItsOwn) {
  EXPECT_EQ(allocate(3), allocated(1, 3));
  EXPECT_EQ(allocate(2), allocated(4, 2));
  EXPECT_EQ(stored(),
            R"({ "_id" : { "c" : "orders.number", "s" : { "tenant" : "a" } }, "V" : 6 })");
  EXPECT_EQ(give_back({5, 1}).kind, Kind::given_back);
}

TEST_F(ScopeTest, MayHaveDotsInTheNamesOfItsFields) {
  const Document scope = Document().add("customer.id", std::int64_t{7});
  spec.place.key = std::string(
      as_text(Document().add("c", "orders.number").add("s", scope).add("p", "2026").bytes()));
  fields.front().scope = std::string(as_text(scope.bytes()));
  order(R"({"customer": {"id": 7}, "number": 5})");
  order(R"({"customer": {"id": 8}, "number": 50})");
  EXPECT_EQ(allocate_patiently(1), allocated(6, 1));
}

TEST_F(ScopeTest, BeginsBehindWhatIsStoredInIt) {
  compound_index();
  order("a", 41);
  order("b", 999);
  EXPECT_EQ(allocate(1), allocated(42, 1));
}

TEST_F(ScopeTest, IsHealedPastWhatIsStoredInIt) {
  compound_index();
  EXPECT_EQ(allocate(1), allocated(1, 1));
  order("a", 337);
  order("b", 999);
  EXPECT_EQ(heal(10, 1), allocated(338, 10));
}

TEST_F(ScopeTest, OfMissingFieldsHasTheDocumentsWithoutThem) {
  Document scope;
  bson_append_null(scope.get(), "tenant", -1);
  spec.place.key = std::string(as_text(Document().add("c", "o").add("s", scope).bytes()));
  fields.front().scope = std::string(as_text(scope.bytes()));
  compound_index();
  order(R"({"number": 7})");
  order(R"({"tenant": null, "number": 8})");
  order("a", 999);
  EXPECT_EQ(allocate(1), allocated(9, 1));
}

TEST_F(ScopeTest, LooksForFreeNumbersWithinIt) {
  spec.heal.mode = CounterSpec::Heal::Mode::gap;
  compound_index();
  EXPECT_EQ(allocate(1), allocated(1, 1));
  order("a", 2);
  order("b", 3);
  EXPECT_EQ(heal(3, 1), allocated(3, 3));
}

TEST_F(ScopeTest, AdvisesTheCompoundIndex) {
  EXPECT_EQ(allocate(1), allocated(1, 1));
  order("a", 2);
  EXPECT_THAT(
      heal(1, 1).why.reason,
      HasSubstr(
          R"(createIndex({"tenant": 1, "number": -1}, {unique: true, )"
          R"(partialFilterExpression: {"number": {$exists: true}}, name: "tenant_number_idproxy"}))"));
}

TEST_F(ScopeTest, ReadsItsTextsByTheirPrefix) {
  template_of(6, "INV-2026-");
  compound_index();
  order(R"({"tenant": "a", "number": "INV-2026-000041"})");
  order(R"({"tenant": "a", "number": "INV-2025-000999"})");
  order(R"({"tenant": "b", "number": "INV-2026-000999"})");
  EXPECT_EQ(allocate(1), allocated(42, 1));
}

TEST_F(ScopeTest, ReadsItsTextsWithCheckDigits) {
  template_of(4, "N");
  fields.front().format.check = ids::Check::mod11_10;
  compound_index();
  order(R"({"tenant": "a", "number": "N07945"})");
  order(R"({"tenant": "a", "number": "N09991"})");  // with another check digit than 999 has
  EXPECT_EQ(allocate(1), allocated(795, 1));
}

TEST_F(ScopeTest, ReadsTextsThatVary) {
  template_of(3, "N");
  fields.front().format.pattern = "^N[0-9]{4}\\-(-?[0-9]{3,})\\z";
  compound_index();
  order(R"({"tenant": "a", "number": "N2026-041"})");
  order(R"({"tenant": "a", "number": "N2025-1041"})");
  order(R"({"tenant": "a", "number": "N2025-x"})");
  order(R"({"tenant": "a", "number": ["N2025-001"]})");
  order(R"({"tenant": "b", "number": "N2026-9999"})");
  EXPECT_EQ(allocate(1), allocated(1042, 1));
  order(R"({"tenant": "a", "number": "N2027-2000"})");
  EXPECT_EQ(heal(1, 1042), allocated(2001, 1));
}

TEST_F(ScopeTest, SaysNothingOfTextsThatRepeat) {
  fields.front().repeats = true;
  order("a", 41);
  EXPECT_EQ(allocate(4), allocated(1, 4));
  EXPECT_EQ(heal({{2, 3}}, 4), kept({{2, 3}}));
}

}  // namespace scope_test
}  // namespace idproxy::id_store::test
