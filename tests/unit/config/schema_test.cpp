#include <boost/json.hpp>
#include <map>
#include <set>

#include "config/key_meanings.hpp"
#include "findings_of.hpp"
#include "idproxy/config/keys.hpp"
#include "idproxy/ids/strategies.hpp"

namespace idproxy::config {
namespace schema_test {

namespace json = boost::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const json::value& schema() {
  static const json::value whole = json_schema(test_sources());
  return whole;
}

/// Of the rules of one strategy.
const json::object& of_rule(std::string_view strategy) {
  for (const json::value& branch : schema().at_pointer("/$defs/rule/allOf").as_array()) {
    if (branch.at_pointer("/if/properties/strategy/const").as_string() == strategy) {
      return branch.at("then").as_object();
    }
  }
  throw std::out_of_range(std::string(strategy));
}

/// The forms that a value may have.
std::vector<const json::object*> forms_of(const json::object& key) {
  const auto* any = key.if_contains("anyOf");
  if (any == nullptr) return {&key};
  std::vector<const json::object*> forms;
  for (const json::value& form : any->as_array()) forms.push_back(&form.as_object());
  return forms;
}

/// The mapping that the value may be; null if it may be none with keys of its own.
const json::object* section_of(const json::object& key) {
  for (const json::object* form : forms_of(key)) {
    if (form->contains("properties")) return form;
  }
  return nullptr;
}

using Keys = std::map<std::string, const json::object*>;

/// Dotted name -> schema, of all keys that are no sections, without those of earlier releases.
void add_keys(const json::object& section, const std::string& before, Keys& keys) {
  EXPECT_EQ(section.at("additionalProperties"), false) << before;
  for (const auto& [name, value] : section.at("properties").as_object()) {
    const json::object& key = value.as_object();
    const json::object* inner = section_of(key);
    if (inner != nullptr) add_keys(*inner, before + std::string(name) + '.', keys);
    if (inner == nullptr && !key.contains("deprecated")) keys[before + std::string(name)] = &key;
  }
}

/// Of the file without its rules, or of a strategy's rules.
Keys keys_of_schema(std::string_view strategy) {
  Keys keys;
  add_keys(strategy.empty() ? schema().as_object() : of_rule(strategy), "", keys);
  return keys;
}

std::vector<std::string_view> all_parts() {
  std::vector<std::string_view> parts{""};
  for (const ids::Kind& kind : ids::kinds()) parts.push_back(kind.name);
  return parts;
}

/// The schema without what it says to people.
json::value without_descriptions(json::value value) {
  if (auto* array = value.if_array()) {
    for (json::value& each : *array) each = without_descriptions(each);
  }
  if (auto* object = value.if_object()) {
    object->erase("description");
    for (auto& member : *object) member.value() = without_descriptions(member.value());
  }
  return value;
}

// ---- its keys ----------------------------------------------------------------------------------

TEST(Schema, IsOfAMappingOrAnEmptyFile) {
  EXPECT_EQ(schema().at("$schema"), "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema().at("type"), json::value({"object", "null"}));
  EXPECT_EQ(schema().at("additionalProperties"), false);
}

TEST(Schema, HasTheKeysThatTheReaderAsksFor) {
  const Keys keys = keys_of_schema("");
  const std::vector<KeyInUse> read = keys_of("", test_sources());
  EXPECT_EQ(keys.size(), read.size());
  for (const KeyInUse& each : read) {
    ASSERT_TRUE(keys.contains(each.key)) << each.key;
    const json::value* fallback = keys.at(each.key)->if_contains("default");
    if (fallback != nullptr) {
      EXPECT_EQ(*fallback, each.value) << each.key;
    }
  }
}

TEST(Schema, HasTheKeysOfTheRulesOfEachStrategy) {
  for (const ids::Kind& kind : ids::kinds()) {
    const json::object& rule = of_rule(kind.name);
    const Keys keys = keys_of_schema(kind.name);
    ::setenv("IDPROXY_TEST_KEY", std::string(32, '0').c_str(), 1);
    const std::string key = kind.name == "permuted" ? ", key: {env: IDPROXY_TEST_KEY}" : "";
    const std::vector<KeyInUse> read =
        keys_of("rules: [{ns: a.b, field: c, strategy: " + std::string(kind.name) + key + "}]",
                test_sources());
    EXPECT_GT(read.size(), 20U) << kind.name;
    for (const KeyInUse& each : read) {
      if (!each.key.starts_with("rules[0].")) continue;
      const std::string name = each.key.substr(9);  // or a section that has been read as a value
      EXPECT_TRUE(keys.contains(name) || rule.at("properties").as_object().contains(name))
          << kind.name << ' ' << name;
    }
  }
}

TEST(Schema, HasTheKeysOfTheTablesWithTheirMeanings) {
  for (const std::string_view part : all_parts()) {
    const std::map<std::string, std::string> meanings = key_meanings(part);
    std::set<std::string> described;
    for (const auto& [key, meaning] : meanings) described.insert(key);
    std::set<std::string> known;
    for (const auto& [name, key] : keys_of_schema(part)) {
      known.insert(name);
      ASSERT_TRUE(key->contains("description") && meanings.contains(name)) << part << ' ' << name;
      EXPECT_THAT(std::string(key->at("description").as_string()),
                  testing::StartsWith(meanings.at(name)));
    }
    // A section that can be a value, too, may have a row for that.
    std::erase_if(described, [&](const std::string& key) {
      return !part.empty() && !known.contains(key) &&
             of_rule(part).at("properties").as_object().contains(key);
    });
    EXPECT_EQ(known, described) << part;
  }
}

TEST(Schema, RequiresWhatEveryRuleMustHave) {
  EXPECT_EQ(schema().at_pointer("/$defs/rule/required"), json::value({"ns", "strategy"}));
  EXPECT_EQ(of_rule("none").at("required"), json::value({"ns", "strategy"}));
  EXPECT_THAT(schema().at_pointer("/$defs/rule/properties/strategy/anyOf/0/enum").as_array(),
              Contains(json::value("none")));
  for (const ids::Kind& kind : ids::kinds()) {
    EXPECT_EQ(of_rule(kind.name).at("required"), json::value({"ns", "field", "strategy"}));
    EXPECT_THAT(schema().at_pointer("/$defs/rule/properties/strategy/anyOf/0/enum").as_array(),
                Contains(json::value(kind.name)));
  }
  EXPECT_EQ(schema().at_pointer("/$defs/rule/allOf").as_array().size(), ids::kinds().size() + 1);
}

// ---- types, bounds and defaults ----------------------------------------------------------------

struct Form {
  const char* key;  ///< of the file, or STRATEGY/KEY
  std::string schema;
};

class FormTest : public testing::TestWithParam<Form> {};

TEST_P(FormTest, IsThatOfTheKeysType) {
  const std::string key = GetParam().key;
  const std::size_t slash = key.find('/');
  const bool of_a_rule = slash != std::string::npos;
  const Keys keys = keys_of_schema(of_a_rule ? key.substr(0, slash) : "");
  const auto found = keys.find(of_a_rule ? key.substr(slash + 1) : key);
  ASSERT_NE(found, keys.end());
  EXPECT_EQ(without_descriptions(*found->second), json::parse(GetParam().schema))
      << json::serialize(*found->second);
}

const std::string kVariable = R"({"$ref": "#/$defs/variable"})";
const std::string kText = R"("type": ["string", "number", "boolean"])";
const std::string kDuration = R"({"type": "string", "pattern": "^(0|[1-9][0-9]*)(ms|s|m|h)$"})";

INSTANTIATE_TEST_SUITE_P(
    Schema, FormTest,
    testing::Values(
        Form{"listen.address", "{" + kText + R"(, "default": "127.0.0.1"})"},
        Form{"listen.advertise",
             R"({"type": ["string", "number", "boolean", "null"], "minLength": 1,
                 "default": null})"},
        Form{"listen.port", R"({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 65535}, )" +
                                kVariable + R"(], "default": 27117})"},
        Form{"listen.members", R"({"type": "object", "additionalProperties": {"anyOf": [
                 {"type": "integer", "minimum": 1, "maximum": 65535}, )" +
                                   kVariable + "]}}"},
        Form{"listen.compression", R"({"anyOf": [{"enum": ["relay", "off"]}, )" + kVariable +
                                       R"(], "default": "relay"})"},
        Form{"admin.hosts", R"({"type": "array", "items": {)" + kText + R"(}, "default": []})"},
        Form{"limits.buffered_messages",
             R"({"anyOf": [{"type": "string", "pattern": "^(0|[1-9][0-9]*)(B|KiB|MiB|GiB)$"}, )" +
                 kVariable + R"(], "default": "256MiB"})"},
        Form{"limits.drain",
             R"({"anyOf": [)" + kDuration + ", " + kVariable + R"(], "default": "25s"})"},
        Form{"threads", R"({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 256},
                 {"enum": ["auto"]}, )" +
                            kVariable + R"(], "default": "auto"})"},
        Form{"reload", R"({"anyOf": [{"enum": ["signal", "watch"]}, )" + kVariable +
                           R"(], "default": "signal"})"},
        Form{"rules", R"({"type": ["array", "null"], "items": {"$ref": "#/$defs/rule"},
                 "maxItems": 1000})"},
        Form{"uuid/ns", "{" + kText + R"(, "minLength": 1})"},
        Form{"uuid/report",
             R"({"anyOf": [{"type": "boolean"}, )" + kVariable + R"(], "default": false})"},
        Form{"uuid/version",
             R"({"anyOf": [{"enum": [7, 4, 1]}, )" + kVariable + R"(], "default": 7})"},
        Form{"random-digits/warn_fill",
             R"({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, )" + kVariable +
                 R"(], "default": 0.1})"},
        Form{"counter/max", R"({"anyOf": [{"type": "integer"}, )" + kVariable + "]}"},
        Form{"counter/scan", R"({"anyOf": [)" + kDuration + R"(, {"enum": ["off"]}, )" + kVariable +
                                 R"(], "default": "1m"})"},
        Form{"counter/on_missing_scope", R"({"anyOf": [{"enum": ["error", "null", null]}, )" +
                                             kVariable + R"(], "default": "error"})"},
        Form{"counter/store.filter",
             R"({"type": ["object", "null"], "propertyNames": {"pattern": "^[^.$][^.]*$"},
                 "additionalProperties": {"type": ["string", "integer", "boolean", "null"]},
                 "default": {}})"}),
    [](const auto& test) {
      std::string name = test.param.key;
      for (char& c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      }
      return name;
    });

TEST(Schema, TellsBoundsThatItsPatternsDoNot) {
  const auto told = [](const char* key) {
    return std::string(keys_of_schema("").at(key)->at("description").as_string());
  };
  EXPECT_THAT(told("limits.drain"), testing::EndsWith(" (0ms to 1h)"));
  EXPECT_THAT(told("limits.buffered_messages"), testing::EndsWith(" (64MiB to 1024GiB)"));
  EXPECT_THAT(told("listen.max_connections"), Not(HasSubstr("1000000")));
}

TEST(Schema, HasAShortFormBesideASection) {
  const json::value block = of_rule("counter").at("properties").at("block");
  EXPECT_EQ(block.at_pointer("/anyOf/0/enum"), json::parse(R"(["auto"])"));
  EXPECT_EQ(block.at_pointer("/anyOf/2/properties/size/default"), "auto");
  EXPECT_EQ(block.at_pointer("/anyOf/2/properties/idle"),
            json::value({{"description", "Has no effect any more"}, {"deprecated", true}}));
}

TEST(Schema, HasSectionsThatMayBeNull) {
  const json::value reserve = of_rule("counter").at("properties").at("reserve");
  EXPECT_EQ(reserve.at("type"), json::value({"object", "null"}));
  EXPECT_EQ(reserve.at("required"), json::parse(R"(["collection"])"));
}

// ---- what it refuses, the reader refuses -------------------------------------------------------

/// A configuration in which a dotted key has this value, in a rule if there is a strategy.
std::string file_with(std::string_view strategy, const std::string& key, const json::value& value) {
  std::string text = json::serialize(value);
  std::string_view rest = key;
  for (std::size_t dot = 0; dot != std::string_view::npos;) {
    dot = rest.rfind('.');
    text = json::serialize(json::value(rest.substr(dot + 1))) + ": " + text;
    rest = rest.substr(0, dot);
    if (dot != std::string_view::npos) text = "{" + text + "}";
  }
  if (strategy.empty()) return text;
  const bool is_own = key == "ns" || key == "field" || key == "strategy";
  std::string rule = is_own ? "" : "ns: a.b, field: c, strategy: " + std::string(strategy) + ", ";
  if (key.starts_with("store.") && (strategy == "counter" || strategy == "permuted")) {
    text.insert(text.find('{') + 1, key == "store.layout" ? "" : "layout: custom, ");
  }
  return "rules: [{" + rule + text + "}]";
}

/// Values that a form refuses.
std::vector<json::value> refused_by(const json::object& key) {
  std::vector<json::value> values;
  const std::vector<const json::object*> forms = forms_of(key);
  const auto may_be = [&](std::string_view type) {
    return json::serialize(json::value(key)).find('"' + std::string(type) + '"') !=
           std::string::npos;
  };
  values.emplace_back(may_be("array") ? json::value(json::object()) : json::value(json::array()));
  for (const json::object* form : forms) {
    if (form->contains("enum")) values.emplace_back("nonsense");
    if (form->contains("pattern")) values.insert(values.end(), {5, "5 s"});
    for (const auto& [bound, step] : {std::pair{"minimum", -1}, {"maximum", 1}}) {
      const json::value* its = form->if_contains(bound);
      if (its != nullptr && its->is_int64()) values.emplace_back(its->as_int64() + step);
      if (its != nullptr && its->is_double()) values.emplace_back(its->as_double() + step);
    }
    if (form->contains("minLength")) values.emplace_back("");
    const json::value* type = form->if_contains("type");
    if (type != nullptr && *type == "boolean") values.emplace_back("5");
    if (type != nullptr && (*type == "integer" || *type == "number")) values.emplace_back("5");
  }
  return values;
}

TEST(Schema, RefusesWhatTheReaderRefuses) {
  std::size_t refused = 0;
  for (const std::string_view part : all_parts()) {
    for (const auto& [name, key] : keys_of_schema(part)) {
      if (name == "strategy") continue;
      for (const json::value& value : refused_by(*key)) {
        const std::string text = file_with(part, name, value);
        const std::string path = (part.empty() ? "" : "rules[0].") + name;
        EXPECT_THAT(findings_of(text), Contains(HasSubstr("error: " + path + ": "))) << text;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300U);
}

TEST(Schema, HasBoundsAndWordsThatTheReaderTakes) {
  for (const auto& [name, key] : keys_of_schema("")) {
    for (const json::object* form : forms_of(*key)) {
      std::vector<json::value> values;
      for (const char* bound : {"minimum", "maximum"}) {
        if (form->contains(bound)) values.push_back(form->at(bound));
      }
      if (form->contains("enum")) {
        for (const json::value& word : form->at("enum").as_array()) values.push_back(word);
      }
      for (const json::value& value : values) {
        const std::string text = file_with("", name, value);
        EXPECT_THAT(findings_of(text), Not(Contains(HasSubstr("error: " + name + ": ")))) << text;
      }
    }
  }
}

}  // namespace schema_test
}  // namespace idproxy::config
