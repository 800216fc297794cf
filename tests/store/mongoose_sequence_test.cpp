#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "counter_fixture.hpp"
#include "id_store/counters.hpp"
#include "support/block_caches.hpp"

/// Counters as the Mongoose plugin mongoose-sequence has them, with reference_fields and without.
namespace idproxy::id_store::test {
namespace mongoose_sequence_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MongooseSequenceTest : public CounterTest {
 protected:
  MongooseSequenceTest() {
    CounterPlace& place = spec.place;
    place.value_field = "seq";
    place.value_is = CounterPlace::ValueIs::last;
    place.name_field = "id";
    place.scope_field = "reference_value";
    scope(R"({"city": "paris", "floor": {"$numberLong": "3"}})");
  }
  void scope(const std::string& text) {
    const Document reference = json(text);
    spec.place.filter = std::string(as_text(Document().add("id", "inhabitant_seq").bytes()));
    spec.place.key_field = "reference_value";
    spec.place.key = std::string(as_text(reference.bytes()));
    spec.place.key_is = CounterPlace::KeyIs::document;
    fields.front().scope = spec.place.key;
    document.reset();
  }
  void no_scope() {
    spec.place.filter = std::string(as_text(json(R"({"reference_value": null})").bytes()));
    spec.place.key_field = "id";
    spec.place.key = "order";
    spec.place.key_is = CounterPlace::KeyIs::text;
    fields.front().scope = "";
    document.reset();
  }
  void plugin_has(const std::string& reference, const std::string& seq) {
    database.insert("counters", R"({"_id": 1, "id": "inhabitant_seq", "reference_value": )" +
                                    reference + R"(, "seq": )" + seq + "}");
  }
  std::string indexes() {
    std::string names;
    (void)client.list_indexes(database.name(), "counters", [&](Bytes index) {
      names += as_json(index);
      return true;
    });
    return names;
  }
  /// Whether a proxy that had the numbers 1 to 10 finds out from what is stored that they are less.
  bool goes_back() {
    spec.block.size = 10;
    spec.block.prefetch = 0;
    idproxy::test::BlockCaches counter{spec};
    const auto first = counter.ask(2);
    EXPECT_TRUE(counter.work());
    counter.wakes = 0;
    const WatchedCounter watched{counter.cache, spec, counter.cache->watch_mark().value()};
    read_counters(client, {&watched, 1});
    return counter.wakes > 0;
  }

  mongo::Client client = pool().client();
};

TEST_F(MongooseSequenceTest, GoesOnBehindThePluginWhateverTypesItsNumbersHave) {
  plugin_has(R"({"city": "paris", "floor": 3})", "12");
  EXPECT_EQ(allocate(3), allocated(13, 3));
  EXPECT_EQ(database.all("counters"),
            R"({ "_id" : 1, "id" : "inhabitant_seq", "reference_value" : { "city" : "paris", )"
            R"("floor" : 3 }, "seq" : 15 })");
  EXPECT_EQ(give_back({14, 2}).kind, Kind::given_back);
  EXPECT_EQ(allocate(1), allocated(14, 1));
}

TEST_F(MongooseSequenceTest, IsMadeAsThePluginWouldMakeIt) {
  EXPECT_EQ(allocate(3), allocated(1, 3));
  EXPECT_EQ(database.all("counters"),
            R"({ "_id" : { "id" : "inhabitant_seq", "reference_value" : { "city" : "paris", )"
            R"("floor" : 3 } }, "id" : "inhabitant_seq", "reference_value" : { "city" : "paris", )"
            R"("floor" : 3 }, "seq" : 3 })");
  EXPECT_THAT(indexes(), AllOf(HasSubstr(R"("key" : { "id" : 1, "reference_value" : 1 }, "name" : )"
                                         R"("id_1_reference_value_1")"),
                               HasSubstr(R"("unique" : true)")));
  scope(R"({"city": "rome", "floor": {"$numberLong": "3"}})");
  EXPECT_EQ(allocate(2), allocated(1, 2));
  no_scope();
  EXPECT_EQ(allocate(2), allocated(1, 2));
  EXPECT_EQ(allocate(2), allocated(3, 2));
}

TEST_F(MongooseSequenceTest, NeedsNoIndexOfItsOwn) {
  database.write(json(R"({"createIndexes": "counters", "indexes": [
      {"key": {"id": 1, "reference_value": 1}, "name": "mine", "unique": true}]})"));
  EXPECT_EQ(allocate(3), allocated(1, 3));
  EXPECT_THAT(indexes(), Not(HasSubstr("id_1_reference_value_1")));
}

TEST_F(MongooseSequenceTest, IsMadeAlsoIfItsIndexCannotBe) {
  database.insert("counters", R"({"_id": 1, "id": "a", "reference_value": null})");
  database.insert("counters", R"({"_id": 2, "id": "a", "reference_value": null})");
  EXPECT_EQ(allocate(3), allocated(1, 3));
  EXPECT_THAT(indexes(), Not(HasSubstr("id_1_reference_value_1")));
}

TEST_F(MongooseSequenceTest, IsHealedWithinItsScope) {
  database.write(json(R"({"createIndexes": "orders", "indexes": [
      {"key": {"city": 1, "floor": 1, "number": 1}, "name": "i", "unique": true}]})"));
  database.insert("orders", R"({"city": "paris", "floor": 3, "number": 41})");
  database.insert("orders", R"({"city": "paris", "floor": 4, "number": 99})");
  plugin_has(R"({"city": "paris", "floor": 3.0})", "12.0");
  EXPECT_EQ(heal(2), allocated(42, 2));
}

TEST_F(MongooseSequenceTest, IsWatchedWhateverTypesItsNumbersHave) {
  plugin_has(R"({"city": "paris", "floor": 3.0})", "10");
  EXPECT_FALSE(goes_back());
  database.set("counters", Document().add("seq", 4));
  EXPECT_TRUE(goes_back());
  database.set("counters", json(R"({"seq": 10})"));
  EXPECT_FALSE(goes_back());
  database.set("counters", json(R"({"reference_value": {"city": "paris", "floor": 4}})"));
  EXPECT_TRUE(goes_back()) << "it is not there any more";
}

TEST_F(MongooseSequenceTest, IsWatchedWithoutAScope) {
  no_scope();
  database.insert("counters", R"({"id": "order", "reference_value": null, "seq": 4})");
  database.insert("counters", R"({"id": "order", "reference_value": {"city": "paris"}, "seq": 1})");
  EXPECT_TRUE(goes_back());
  database.write(json(R"({"update": "counters", "updates": [
      {"q": {"reference_value": null}, "u": {"$set": {"seq": 10}}}]})"));
  EXPECT_FALSE(goes_back());
}

TEST_F(MongooseSequenceTest, ThatWasLostBeginsBehindWhatIsStored) {
  EXPECT_EQ(allocate(3), allocated(1, 3));
  EXPECT_THAT(database.all("idproxyCounterMarks"),
              HasSubstr(R"("query" : { "id" : "inhabitant_seq", "reference_value" : )"
                        R"({ "city" : "paris", "floor" : 3 } })"));
  database.write(json(R"({"createIndexes": "orders", "indexes": [
      {"key": {"city": 1, "floor": 1, "number": 1}, "name": "i", "unique": true}]})"));
  database.insert("orders", R"({"city": "paris", "floor": 3, "number": 41})");
  database.remove_all("counters");
  document.reset();
  EXPECT_EQ(allocate(3), allocated(42, 3));
}

}  // namespace mongoose_sequence_test
}  // namespace idproxy::id_store::test
