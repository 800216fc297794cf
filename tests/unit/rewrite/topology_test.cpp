#include "idproxy/rewrite/topology.hpp"

#include <gtest/gtest.h>

namespace idproxy::rewrite {
namespace topology_test {

using Origin = ServerDescription::Origin;
using State = HelloReply::State;

/// A script: servers get their listeners, and say something.
class Script {
 public:
  ServerId uri(const std::string& name) { return topology_.add(name, listener(), Origin::uri); }
  ServerId member(const std::string& name) {
    return topology_.add(name, listener(), Origin::member, "rs0");
  }
  void says(ServerId server, State state, const std::string& me, std::vector<std::string> members,
            std::int64_t version = 1, char term = 1, const std::string& set = "rs0") {
    HelloReply reply;
    reply.state = state;
    reply.set_name = set;
    reply.me = me;
    reply.members = std::move(members);
    reply.set_version = version;
    if (state == State::primary) reply.election_id = std::string(11, '\0') + term;
    topology_.heard(server, reply);
  }

  /// "db2:1 db3:1", with a ! before those that cannot have a listener.
  [[nodiscard]] std::string missing() const {
    std::string text;
    for (const auto& each : topology_.missing()) {
      text += (text.empty() ? "" : " ") + std::string(each.possible ? "" : "!") + each.member;
    }
    return text;
  }
  [[nodiscard]] std::string superfluous() const {
    std::string text;
    for (const ServerId id : topology_.superfluous()) {
      text += (text.empty() ? "" : " ") + topology_.find(id)->name;
    }
    return text;
  }
  [[nodiscard]] std::string at(const std::string& member) const {
    const auto members = topology_.members();
    return std::string(members->listener_of(member).value_or("left out"));
  }
  Topology& topology() { return topology_; }

 private:
  std::string listener() { return "p:" + std::to_string(next_++); }
  Topology topology_;
  int next_ = 1;
};

TEST(Topology, AsksForMembersInTheOrderOfTheSet) {
  Script script;
  const auto first = script.uri("db1:1");
  EXPECT_EQ(script.missing(), "");
  script.says(first, State::secondary, "db1:1", {"db3:1", "db1:1", "db2:1", "db3:1"});
  EXPECT_EQ(script.missing(), "db3:1 db2:1");
  EXPECT_EQ(script.at("db3:1"), "left out");
  script.member("db3:1");
  EXPECT_EQ(script.missing(), "db2:1");
  EXPECT_EQ(script.at("DB3:1"), "p:2");
  EXPECT_EQ(script.at("p:2"), "p:2");
  EXPECT_EQ(script.superfluous(), "");
}

TEST(Topology, KnowsAServerByTheNameThatItsSetHasForIt) {
  Script script;
  const auto first = script.uri("localhost:1");
  const auto second = script.uri("10.0.0.2:1");
  script.says(first, State::primary, "db1:1", {"db1:1", "db2:1"});
  EXPECT_EQ(script.missing(), "db2:1");  // nobody knows yet who 10.0.0.2 is
  script.says(second, State::secondary, "db2:1", {"db1:1", "db2:1"});
  EXPECT_EQ(script.missing(), "");
  EXPECT_EQ(script.at("db1:1"), "p:1");
  EXPECT_EQ(script.at("db2:1"), "p:2");
}

TEST(Topology, AHostOfTheConnectionStringTakesItsMemberOver) {
  Script script;
  const auto first = script.uri("db1:1");
  const auto second = script.uri("10.0.0.2:1");  // cannot be reached at first
  script.says(first, State::primary, "db1:1", {"db1:1", "db2:1"});
  script.member("db2:1");
  EXPECT_EQ(script.at("db2:1"), "p:3");
  script.says(second, State::secondary, "db2:1", {"db1:1", "db2:1"});
  EXPECT_EQ(script.at("db2:1"), "p:2");
  EXPECT_EQ(script.superfluous(), "db2:1");
}

TEST(Topology, OneServerNamedTwiceHasTheFirstListener) {
  Script script;
  for (const auto server : {script.uri("localhost:1"), script.uri("127.0.0.1:1")}) {
    script.says(server, State::primary, "db1:1", {"db1:1"});
  }
  EXPECT_EQ(script.at("db1:1"), "p:1");
  EXPECT_EQ(script.superfluous(), "");
}

TEST(Topology, ANameThatLeadsToSeveralMembersStandsForNone) {
  Script script;
  const std::vector<std::string> all = {"db1:1", "db2:1"};
  const auto service = script.uri("mongo:1");
  script.says(service, State::primary, "db1:1", all);
  EXPECT_EQ(script.missing(), "db2:1");
  for (const char* me : {"db2:1", "db1:1"}) {
    script.says(service, State::secondary, me, all);
    EXPECT_EQ(script.missing(), "db1:1 db2:1");
  }
  script.member("db1:1");
  script.member("db2:1");
  EXPECT_EQ(script.at("db1:1") + script.at("db2:1"), "p:2p:3");
  script.says(service, State::primary, "db1:1", all);
  EXPECT_EQ(script.superfluous() + script.missing(), "");
}

TEST(Topology, AServerThatItsSetRenamesStaysOne) {
  Script script;
  const auto first = script.uri("10.0.0.1:1");
  script.says(first, State::primary, "10.0.0.1:1", {"10.0.0.1:1"});
  script.says(first, State::primary, "db1:1", {"db1:1"}, 2);
  EXPECT_EQ(script.missing(), "");
  EXPECT_EQ(script.at("db1:1"), "p:1");
}

TEST(Topology, AMemberIsLookedForElsewhereIfItsHostIsGoneForLong) {
  Script script;
  const auto first = script.uri("10.0.0.1:1");
  const auto second = script.uri("10.0.0.2:1");
  script.says(first, State::primary, "db1:1", {"db1:1", "db2:1"});
  script.says(second, State::secondary, "db2:1", {"db1:1", "db2:1"});
  script.topology().lost(second);
  EXPECT_EQ(script.missing(), "");
  script.topology().forget(second);
  EXPECT_EQ(script.missing(), "db2:1");
}

TEST(Topology, OnlyAPrimaryTakesAListenerAway) {
  Script script;
  const auto first = script.uri("db1:1");
  const auto second = script.member("db2:1");
  script.member("db3:1");
  const std::vector<std::string> all = {"db1:1", "db2:1", "db3:1"};
  script.says(first, State::primary, "db1:1", all, 1);
  script.says(second, State::secondary, "db2:1", {"db1:1", "db2:1"}, 2);
  EXPECT_EQ(script.superfluous(), "");
  script.says(first, State::secondary, "db1:1", {"db1:1", "db2:1"}, 2);
  EXPECT_EQ(script.superfluous(), "");
  script.says(second, State::primary, "db2:1", {"db1:1", "db2:1"}, 2, 2);
  EXPECT_EQ(script.superfluous(), "db3:1");
  // Who the connection string names stays, whatever becomes of it.
  script.says(second, State::primary, "db2:1", {"db2:1"}, 3, 2);
  EXPECT_EQ(script.superfluous(), "db3:1");
}

TEST(Topology, AnAddressThatIsAnothersDoesNotStandForTheMemberThatHadIt) {
  Script script;
  const auto first = script.uri("10.0.0.1:1");
  const auto second = script.uri("10.0.0.2:1");
  script.says(first, State::secondary, "db1:1", {"db1:1", "db2:1"});
  script.says(second, State::primary, "db2:1", {"db1:1", "db2:1"});
  EXPECT_EQ(script.missing(), "");
  script.says(first, State::other, "", {}, 0, 0, "");  // it starts
  EXPECT_EQ(script.missing(), "");
  script.says(first, State::standalone, "", {}, 0, 0, "");
  EXPECT_EQ(script.missing(), "db1:1");
}

TEST(Topology, APrimarySpeaksForItsOwnSetOnly) {
  Script script;
  const auto first = script.uri("db1:1");
  const auto other = script.uri("x1:1");
  script.says(first, State::primary, "db1:1", {"db1:1", "db2:1"});
  script.member("db2:1");
  script.says(other, State::primary, "x1:1", {"x1:1"}, 1, 1, "rs9");
  script.says(first, State::other, "", {}, 0, 0, "");  // it starts
  EXPECT_EQ(script.superfluous(), "");
}

TEST(Topology, AnOldPrimaryIsNotBelieved) {
  Script script;
  const auto first = script.uri("db1:1");
  const auto second = script.uri("db2:1");
  script.says(second, State::primary, "db2:1", {"db1:1", "db2:1", "db3:1"}, 5, 7);
  script.says(first, State::primary, "db1:1", {"db1:1", "db2:1", "db4:1"}, 6, 6);
  EXPECT_EQ(script.missing(), "db3:1");
  // Its connections break: it is none any more, and nobody's list but the other's is there.
  script.topology().lost(second);
  EXPECT_EQ(script.missing(), "db4:1");
}

TEST(Topology, WhatWasSaidEarlierIsNotBelievedLater) {
  Script script;
  const auto first = script.uri("db1:1");
  HelloReply reply;
  reply.state = State::primary;
  reply.set_name = "rs0";
  reply.process_id = std::string(12, 'p');
  const auto says = [&](std::int64_t counter, std::vector<std::string> members) {
    reply.counter = counter;
    reply.members = std::move(members);
    script.topology().heard(first, reply);
    return script.missing();
  };
  EXPECT_EQ(says(6, {"db1:1", "db2:1"}), "db2:1");
  EXPECT_EQ(says(5, {"db1:1"}), "db2:1");
  EXPECT_EQ(says(6, {"db1:1"}), "");
  reply.process_id = std::string(12, 'q');  // it has been started again
  EXPECT_EQ(says(0, {"db1:1", "db3:1"}), "db3:1");
}

TEST(Topology, ASetThatBeganAnewIsBelieved) {
  Script script;
  const auto first = script.uri("db1:1");
  const auto second = script.uri("db2:1");
  script.says(first, State::primary, "db1:1", {"db1:1", "db2:1"}, 9, 9);
  script.says(second, State::secondary, "db2:1", {"db1:1", "db2:1"}, 9);
  script.says(first, State::primary, "db1:1", {"db1:1", "db5:1"}, 1, 1);
  EXPECT_EQ(script.missing(), "db5:1");
}

TEST(Topology, ARenamedSetKeepsItsListeners) {
  Script script;
  const auto first = script.uri("db1:1");
  const auto second = script.member("db2:1");
  for (const char* set : {"rs0", "rs1"}) {
    script.says(first, State::primary, "db1:1", {"db1:1", "db2:1"}, 1, 1, set);
    EXPECT_EQ(script.superfluous(), "");
  }
  script.says(second, State::secondary, "db2:1", {"db1:1", "db2:1"}, 1, 1, "rs1");
  script.says(first, State::primary, "db1:1", {"db1:1"}, 2, 1, "rs1");
  EXPECT_EQ(script.superfluous(), "db2:1");
}

TEST(Topology, AMemberThatIsOurselvesKeepsItsName) {
  Script script;
  const auto first = script.uri("db1:1");
  script.says(first, State::primary, "db1:1", {"db1:1", "p:1"});
  EXPECT_EQ(script.missing(), "");
  EXPECT_EQ(script.at("P:1"), "p:1");
}

TEST(Topology, AMemberThatDoesNotKnowWhoItIsStaysWhatItWas) {
  Script script;
  const auto first = script.uri("10.0.0.1:1");
  const auto second = script.uri("10.0.0.2:1");
  script.says(first, State::primary, "db1:1", {"db1:1", "db2:1"});
  script.says(second, State::secondary, "db2:1", {"db1:1", "db2:1"});
  script.says(second, State::other, "", {}, 0, 0, "");  // it starts
  EXPECT_EQ(script.missing(), "");
  EXPECT_EQ(script.at("db2:1"), "p:2");
}

TEST(Topology, AServerThatASetNamesIsThatMemberWhateverItSays) {
  Script script;
  const std::vector<std::string> all = {"db1:1", "db2:1"};
  const auto first = script.uri("db1:1");
  script.says(first, State::primary, "db1:1", all);
  const auto second = script.member("db2:1");
  script.says(first, State::secondary, "db2:1", all);
  script.says(second, State::secondary, "db1:1", all);
  EXPECT_EQ(script.superfluous() + script.missing(), "");
  EXPECT_EQ(script.at("db1:1") + script.at("db2:1"), "p:1p:2");
}

TEST(Topology, DoesNotBelieveInWhatIsNoAddress) {
  Script script;
  const auto first = script.uri("db1:1");
  script.says(first, State::primary, "db1:1",
              {"db1:1", "db2", ":1", "db3:", "db4:0", "db5:65536", "db 6:1", "a/b:1", "u@db:1",
               "db7:1x", "db8\n:1", std::string(300, 'x') + ":1", "h1:1,h2:1", "[::1:1", "::1",
               "[db9]:1", "[::1]:27017"});
  std::string refused;
  for (const auto& each : script.topology().missing()) {
    if (each.possible) refused += each.member;
  }
  EXPECT_EQ(refused, "[::1]:27017");
  EXPECT_EQ(script.topology().missing().size(), 16U);
}

TEST(Topology, BelievesInAsManyMembersAsASetCanHave) {
  Script script;
  const auto first = script.uri("db1:1");
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back("m" + std::to_string(i) + ":1");
  script.says(first, State::primary, "db1:1", many);
  const auto missing = script.topology().missing();
  EXPECT_EQ(std::ranges::count(missing, true, &Topology::Missing::possible), 50);
  for (int i = 0; i < 50; ++i) script.member(many[static_cast<std::size_t>(i)]);
  EXPECT_EQ(script.missing().substr(0, 6), "!m50:1");
}

TEST(Topology, ForgetsAndIgnoresServersThatAreGone) {
  Script script;
  script.uri("db1:1");
  const auto second = script.member("db2:1");
  script.topology().remove(second);
  script.says(second, State::primary, "db2:1", {"db2:1", "db3:1"});
  script.topology().lost(second);
  EXPECT_EQ(script.missing(), "");
  EXPECT_EQ(script.at("db2:1"), "left out");
}

}  // namespace topology_test
}  // namespace idproxy::rewrite
