#include "config/exceptions.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace exceptions_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string rules(const std::string& lines) {
  std::string text = "rules:\n";
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) text += "  - {" + line + "}\n";
  return text;
}

/// The namespaces of `asked` to which the rule applies.
std::vector<std::string> matched(const rewrite::Rule& rule, const std::vector<std::string>& asked) {
  std::vector<std::string> found;
  std::ranges::copy_if(asked, std::back_inserter(found),
                       [&](const std::string& ns) { return rule.matches(ns); });
  return found;
}

std::vector<rewrite::Rule> rules_of(const std::string& lines) {
  Loaded loaded = load(rules(lines));
  EXPECT_TRUE(loaded.ok()) << testing::PrintToString(texts_of(loaded.findings));
  return std::move(loaded.config.rules);
}

TEST(Exceptions, TakeNamespacesOutOfAWildcard) {
  const auto read =
      rules_of("ns: 'shop.*', except: ['*.fs.*', shop.audit], field: number, strategy: counter");
  EXPECT_THAT(matched(read.at(0), {"shop.orders", "shop.audit", "shop.audit.old", "shop.fs.files"}),
              ElementsAre("shop.orders", "shop.audit.old"));
  EXPECT_EQ(read[0].strategy->about().field.except, read[0].except);
}

struct OwnCase {
  const char* rule;
  std::vector<std::string> matched;
};

TEST(Exceptions, OfWildcardsThemselvesGiveWayToARuleThatNamesThem) {
  const std::vector<std::string> all{"shop.__keyVault", "shop.enxcol_.people.esc",
                                     "shop.fs.files",   "shop.fs.chunks",
                                     "shop.files",      "shop.orders"};
  const OwnCase cases[] = {
      {"ns: '*', field: n, strategy: uuid",
       {"shop.fs.files", "shop.fs.chunks", "shop.files", "shop.orders"}},
      {"ns: 'shop.*', field: _id, assign: missing, strategy: uuid",
       {"shop.fs.files", "shop.fs.chunks", "shop.files", "shop.orders"}},
      {"ns: 'shop.*', field: _id, assign: driver, strategy: uuid",
       {"shop.fs.chunks", "shop.files", "shop.orders"}},
      {"ns: 'shop.*', field: _id, assign: always, strategy: uuid",
       {"shop.fs.chunks", "shop.files", "shop.orders"}},
      {"ns: shop.__keyVault, field: n, strategy: uuid", {"shop.__keyVault"}},
      {"ns: '*.__keyVault', field: n, strategy: uuid", {"shop.__keyVault"}},
      {"ns: 'shop.enxcol_.*', field: n, strategy: uuid", {"shop.enxcol_.people.esc"}},
      {"ns: 'shop.fs.fil*', field: _id, assign: always, strategy: uuid", {}},
      {"ns: 'shop.*.files', field: _id, assign: always, strategy: uuid", {"shop.fs.files"}},
      {"ns: shop.fs.files, field: _id, assign: always, strategy: uuid", {"shop.fs.files"}},
  };
  for (const OwnCase& c : cases) {
    EXPECT_EQ(matched(rules_of(c.rule).at(0), all), c.matched) << c.rule;
  }
}

TEST(Exceptions, OfARuleWithTheStrategyNoneHoldForTheRulesBelowIt) {
  const auto read = rules_of(
      "ns: 'shop.a*', field: code, strategy: counter\n"
      "ns: 'shop.aud*', field: number, strategy: none\n"
      "ns: 'logs.*', except: [logs.orders], strategy: none\n"
      "ns: '*', field: number.b, strategy: counter\n"
      "ns: '*', field: numbers, strategy: counter\n");
  ASSERT_EQ(read.size(), 3U);
  const std::vector<std::string> all{"shop.audit", "shop.orders", "logs.orders", "logs.x"};
  EXPECT_THAT(matched(read[0], all), ElementsAre("shop.audit"));
  EXPECT_THAT(matched(read[1], all), ElementsAre("shop.orders", "logs.orders"));
  EXPECT_THAT(matched(read[2], all), ElementsAre("shop.audit", "shop.orders", "logs.orders"));
  EXPECT_EQ(read[0].nones_before, 0U);
  EXPECT_EQ(read[1].nones_before, 2U);
  EXPECT_EQ(read[2].nones_before, 2U);
}

struct FaultCase {
  const char* name;
  const char* rules;
  const char* finding;  // null: none
};

TEST(Exceptions, ReportsWhatTakesNothingOutOrTooMuch) {
  constexpr FaultCase kCases[] = {
      {"no_wildcard", "ns: a.b, except: [a.c], field: x, strategy: uuid",
       "2:15: error: rules[0].except: needs an ns with wildcards: 'a.b' names one collection"},
      {"no_namespace", "ns: 'a.*', except: [audit], field: x, strategy: uuid",
       "2:17: error: rules[0].except: must name a database and a collection, as in shop.orders or "
       "\"shop.*\", is 'audit'"},
      {"no_list", "ns: 'a.*', except: a.b, field: x, strategy: uuid",
       "2:17: error: rules[0].except: must be a list of texts, is text 'a.b'"},
      {"all", "ns: 'a.*', except: ['*'], field: x, strategy: uuid",
       "2:17: error: rules[0].except: '*' takes out all that 'a.*' matches, so that the rule would "
       "never apply"},
      {"elsewhere", "ns: 'a.*', except: [b.c], field: x, strategy: uuid",
       "2:17: warning: rules[0].except: 'b.c' takes nothing out: 'a.*' matches no such collection"},
      {"of_the_server", "ns: '*', except: ['admin.*'], field: x, strategy: uuid", nullptr},
      {"misspelt", "ns: 'a.*', exept: [a.b], field: x, strategy: uuid",
       "2:17: error: rules[0]: unknown key 'exept', did you mean 'except'?"},
      {"none_with_a_key", "ns: a.b, strategy: none, start: 5\nns: 'a.*', field: x, strategy: uuid",
       "2:31: error: rules[0]: unknown key 'start'; known here: except, field, ns, strategy"},
      {"none_of_no_field",
       "ns: a.b, field: a..b, strategy: none\nns: 'a.*', field: x, strategy: uuid",
       "2:15: error: rules[0].field: has an empty part: a dot must stand between two names"},
      {"none_of_the_server", "ns: admin.x, strategy: none\nns: '*', field: x, strategy: uuid",
       "2:6: error: rules[0].ns: 'admin.x' is never touched: the databases admin, config and local "
       "belong to the server"},
      {"none_below", "ns: 'a.*', field: x, strategy: uuid\nns: a.b, field: x, strategy: none",
       "3:6: error: rules[1].ns: never reached: rules[0] ('a.*') matches first; put the narrower "
       "rule in front of it"},
      {"none_above_its_own", "ns: a.b, strategy: none\nns: a.b, field: x, strategy: uuid",
       "3:6: error: rules[1].ns: never reached: rules[0] (strategy: none) takes it out; put this "
       "rule in front of it"},
      {"none_above_all", "ns: '*', field: x, strategy: none\nns: 'a.*', field: x.y, strategy: uuid",
       "3:6: error: rules[1].ns: never reached: rules[0] (strategy: none) takes it out; put this "
       "rule in front of it"},
      {"none_above_but_for_others",
       "ns: '*', except: [a.b], strategy: none\nns: 'shop.*', field: x, strategy: uuid",
       "3:6: error: rules[1].ns: never reached: rules[0] (strategy: none) takes it out; put this "
       "rule in front of it"},
      {"all_but_one", "ns: '*', except: [a.b], strategy: none\nns: 'a.*', field: x, strategy: uuid",
       nullptr},
      {"all_but_one_by_name",
       "ns: 'a.*', except: [a.b], strategy: none\nns: a.b, field: x, strategy: uuid",
       "2:32: warning: rules[0].strategy: none takes nothing out: no rule below this one applies "
       "to 'a.*' and fills the field"},
      {"none_of_another_field",
       "ns: a.b, field: y, strategy: none\nns: 'a.*', field: x, strategy: uuid",
       "2:25: warning: rules[0].strategy: none takes nothing out: no rule below this one applies "
       "to 'a.b' and fills the field"},
      {"the_excepted_by_name",
       "ns: 'a.*', except: [a.b], field: x, strategy: uuid\nns: a.b, field: x, strategy: uuid",
       nullptr},
      {"the_excepted_with_a_field_inside",
       "ns: 'a.*', except: [a.b], field: x, strategy: uuid\nns: a.b, field: x.y, strategy: uuid",
       nullptr},
      {"the_same_but_for_the_excepted",
       "ns: 'a.*', except: [a.b], field: x, strategy: uuid\nns: 'a.*', field: x, strategy: uuid",
       nullptr},
      {"the_same_exceptions",
       "ns: 'a.*', except: [a.b], field: x, strategy: uuid\n"
       "ns: 'a.*', except: [a.b], field: x, strategy: uuid",
       "3:6: error: rules[1].ns: never reached: rules[0] has the same ns and field"},
      {"gapless_ids_elsewhere",
       "ns: 'a.*', except: [a.b], field: _id, strategy: gapless, assign: missing\n"
       "ns: a.b, field: x, strategy: uuid, reserve: {collection: r}",
       nullptr},
  };
  for (const FaultCase& c : kCases) {
    const auto found = findings_of(rules(c.rules));
    if (c.finding == nullptr) {
      EXPECT_THAT(found, IsEmpty()) << c.name;
    } else {
      EXPECT_THAT(found, ElementsAre(c.finding)) << c.name;
    }
  }
}

TEST(Exceptions, AreNotedForWhoeverHasTheFileChecked) {
  const Loaded loaded = load(rules(
      "ns: shop.a, field: _id, strategy: none\n"
      "ns: '*', except: ['*.logs', '*.__keyVault'], field: _id, assign: always, strategy: uuid\n"
      "ns: shop.orders, field: number, strategy: counter\n"
      "ns: 'a.__keyVault*', field: number, strategy: counter\n"));
  EXPECT_THAT(
      texts_of(loaded.notes),
      ElementsAre("3:6: note: rules[1].ns: leaves alone '*.logs' (except); '*.__keyVault' "
                  "(except); 'shop.a' (rules[0], none); '*.enxcol_.*' (unless a rule names "
                  "it: encryption refuses further fields); '*.*.files' (unless a rule names "
                  "it: GridFS finds a file's chunks by the _id that the driver made)",
                  HasSubstr("5:6: note: rules[3].ns: leaves alone '*.__keyVault' (unless")));
}

TEST(Exceptions, ChangeTheValuesOfSharedCountersAlone) {
  const auto source = [](const std::string& except, const std::string& strategy) {
    return rules_of("ns: 'a.*', except: [" + except + "], field: x, strategy: " + strategy)
        .at(0)
        .source;
  };
  EXPECT_EQ(source("a.b", "counter"), source("", "counter"));
  EXPECT_EQ(source("a.b", "uuid"), source("", "uuid"));
  EXPECT_NE(source("a.b", "counter, name: all"), source("", "counter, name: all"));
}

TEST(Exceptions, AreInTheDefinition) {
  const std::string all = "ns: '*', field: x, strategy: uuid";
  const auto of_none = rules_of("ns: a.b, strategy: none\n" + all).at(0).definition;
  EXPECT_NE(of_none, rules_of(all).at(0).definition);
  EXPECT_EQ(of_none, rules_of("ns: '*', except: [a.b], field: x, strategy: uuid").at(0).definition);
}

}  // namespace exceptions_test
}  // namespace idproxy::config
