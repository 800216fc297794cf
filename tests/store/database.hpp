#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "idproxy/base/clock.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/stored_value.hpp"

namespace idproxy::id_store::test {

using mongo::Array;
using mongo::Document;

/// Of a replica set of one member that runs with enableTestCommands=1.
inline std::string uri() {
  const char* given = std::getenv("IDPROXY_STORE_URI");
  return given != nullptr ? given : "mongodb://127.0.0.1:27017";
}

class SystemClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds wall() const override {
    return std::chrono::system_clock::now().time_since_epoch();
  }
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
};

/// Within 20 s.
inline bool comes_true(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

inline mongo::Pool& pool() {
  // Far more than a proxy has: with sanitizers, and much beside it, a large batch takes seconds.
  static mongo::Pool pool(uri(), std::chrono::seconds(60));
  return pool;
}

/// {a: 1} from its extended JSON.
inline Document json(const std::string& text) {
  bson_error_t error;
  bson_t* parsed = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(text.data()),
                                      static_cast<ssize_t>(text.size()), &error);
  if (parsed == nullptr) throw std::runtime_error(error.message);
  Document document(Bytes(bson_get_data(parsed), parsed->len));
  bson_destroy(parsed);
  return document;
}

inline std::string as_json(Bytes document) {
  const Document copy(document);
  char* text = bson_as_relaxed_extended_json(copy.get(), nullptr);
  std::string result(text);
  bson_free(text);
  return result;
}

/// A database of the running test's own, empty at first.
class Database {
 public:
  Database() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    name_ = (std::string("store_") + test->name()).substr(0, 60);
    for (char& c : name_) c = c == '/' ? '_' : c;
    write(Document().add("dropDatabase", 1));
  }

  [[nodiscard]] const std::string& name() const { return name_; }

  void write(const Document& command) {
    const mongo::Reply reply = client_.write(name_, command);
    ASSERT_TRUE(reply.ok()) << reply.message;
  }
  void insert(const std::string& collection, const Document& document) {
    write(Document().add("insert", collection).add("documents", Array().push(document)));
  }
  void insert(const std::string& collection, const std::string& document) {
    insert(collection, json(document));
  }
  void remove_all(const std::string& collection) {
    const Document all = Document().add("q", Document()).add("limit", 0);
    write(Document().add("delete", collection).add("deletes", Array().push(all)));
  }
  /// {$set: …} on the only document.
  void set(const std::string& collection, const Document& fields) {
    const Document update =
        Document().add("q", Document()).add("u", Document().add("$set", fields));
    write(Document().add("update", collection).add("updates", Array().push(update)));
  }
  enum class Unique { no, yes };
  void create_index(const std::string& collection, const std::string& field, Unique unique) {
    create_index(collection, field, Document().add("unique", unique == Unique::yes));
  }
  void create_index(const std::string& collection, const std::string& field,
                    const Document& options) {
    Document index;
    index.add("key", Document().add(field, 1)).add("name", field).append(options);
    write(Document().add("createIndexes", collection).add("indexes", Array().push(index)));
  }
  void drop_index(const std::string& collection, const std::string& name) {
    write(Document().add("dropIndexes", collection).add("index", name));
  }
  /// {_id: 0} … with the fields.
  void insert_many(const std::string& collection, int count, const Document& fields = {}) {
    for (int i = 0; i < count;) {
      Array documents;
      for (int end = std::min(i + 50'000, count); i < end; ++i) {
        documents.push(Document().add("_id", i).append(fields));
      }
      write(Document().add("insert", collection).add("documents", documents));
    }
  }
  /// All documents, as relaxed extended JSON, in a row.
  std::string all(const std::string& collection) {
    std::string result;
    const mongo::Reply reply =
        client_.read_all(name_, Document().add("find", collection), [&](Bytes document) {
          result += as_json(document);
          return true;
        });
    EXPECT_TRUE(reply.ok()) << reply.message;
    return result;
  }
  /// What the only document holds.
  StoredValue value(const std::string& collection, const std::string& field) {
    StoredValue value;
    (void)client_.read_all(name_, Document().add("find", collection), [&](Bytes document) {
      value = stored_value(document, field);
      return false;
    });
    return value;
  }

  /// The next `times` findAndModify of anybody: `what` is a part of a failCommand's data.
  void fail_find_and_modify(int times, const std::string& what) {
    fail("findAndModify", times, what);
  }
  void fail(const std::string& command, int times, const std::string& what) {
    const Document data = json(R"({"failCommands": [")" + command + R"("]})").append(json(what));
    const mongo::Reply reply =
        client_.read("admin", Document()
                                  .add("configureFailPoint", "failCommand")
                                  .add("mode", Document().add("times", times))
                                  .add("data", data));
    ASSERT_TRUE(reply.ok()) << reply.message;
  }
  void fail_no_more() {
    const Document command = Document().add("configureFailPoint", "failCommand").add("mode", "off");
    EXPECT_TRUE(client_.read("admin", command).ok());
  }

 private:
  mongo::Client client_ = pool().client();
  std::string name_;
};

}  // namespace idproxy::id_store::test
