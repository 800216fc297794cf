#include "app/views/metrics_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/rule_set.hpp"

namespace idproxy::app::views {
namespace exposition_test {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// The text format as promtool check metrics reads it, and stricter: each line is what it may be,
/// families are not interleaved, and every series of a family has the same label names.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    if (!text.ends_with('\n')) fault("the last line does not end");
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) read(line);
    close_family();
  }

  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }
  [[nodiscard]] const std::map<std::string, double>& series() const { return series_; }
  [[nodiscard]] const std::map<std::string, std::string>& types() const { return types_; }

 private:
  void fault(const std::string& what) { faults_.push_back(what + " in: " + line_); }

  void read(const std::string& line) {
    line_ = line;
    static const std::regex help("# HELP ([a-z_]+) (\\S.*)");
    static const std::regex type("# TYPE ([a-z_]+) (counter|gauge|histogram)");
    static const std::regex sample("([a-z_]+)(?:\\{(.*)\\})? (\\S+)");
    std::smatch found;
    if (std::regex_match(line, found, help)) {
      open_family(found[1], found[2]);
    } else if (std::regex_match(line, found, type)) {
      if (found[1] != family_ || !type_.empty()) fault("TYPE without its HELP");
      type_ = found[2];
      types_[family_] = type_;
      if ((type_ == "counter") != family_.ends_with("_total")) fault("_total is for counters");
    } else if (std::regex_match(line, found, sample)) {
      read_sample(found[1], found[2], found[3]);
    } else {
      fault("not a line");
    }
  }

  void open_family(const std::string& name, const std::string& help) {
    close_family();
    family_ = name;
    type_.clear();
    if (!names_.insert(name).second) fault("a second family of the name");
    if (!name.starts_with("idproxy_") && !name.starts_with("process_")) fault("no prefix");
    if (name.find("millis") != std::string::npos || name.ends_with("_ms")) fault("not a base unit");
    if (!help.ends_with(".")) fault("HELP is no sentence");
    label_names_.reset();
  }

  void close_family() {
    if (!family_.empty() && samples_ == 0) fault("no series of " + family_);
    samples_ = 0;
    for (const auto& [labels, buckets] : buckets_) check(labels, buckets);
    buckets_.clear();
    counts_.clear();
    sums_.clear();
  }

  using Labels = std::vector<std::pair<std::string, std::string>>;

  Labels read_labels(std::string text) {
    Labels labels;
    static const std::regex label("([a-z_]+)=\"((?:[^\"\\\\\\n]|\\\\[\"\\\\n])*)\"(,?)(.*)");
    std::smatch found;
    while (!text.empty()) {
      const std::string rest = text;
      if (!std::regex_match(rest, found, label) || (found[3] == "") != (found[4] == "")) {
        fault("not a label");
        return labels;
      }
      labels.emplace_back(found[1], found[2]);
      text = found[4];
    }
    return labels;
  }

  void read_sample(const std::string& name, const std::string& label_text,
                   const std::string& value_text) {
    ++samples_;
    const double value = value_text == "+Inf" ? INFINITY : std::stod(value_text);
    if (type_.empty()) fault("a sample before its TYPE");
    if (type_ != "gauge" && (value < 0 || !std::isfinite(value))) fault("a count below 0");
    if (!series_.emplace(name + "{" + label_text + "}", value).second) fault("a second time");
    Labels labels = read_labels(label_text);
    if (type_ != "histogram") {
      if (name != family_) fault("of another family");
      return check_names(labels);
    }
    const auto le = std::find_if(labels.begin(), labels.end(),
                                 [](const auto& each) { return each.first == "le"; });
    if (name == family_ + "_bucket") {
      if (le == labels.end()) return fault("a bucket without le");
      const double bound = le->second == "+Inf" ? INFINITY : std::stod(le->second);
      labels.erase(le);
      buckets_[labels].emplace_back(bound, value);
    } else if (name == family_ + "_count") {
      counts_[labels] = value;
    } else if (name == family_ + "_sum") {
      sums_[labels] = value;
    } else {
      fault("of another family");
    }
    check_names(labels);
  }

  void check_names(const Labels& labels) {
    std::set<std::string> names;
    for (const auto& each : labels) {
      if (!names.insert(each.first).second) fault("a label twice");
    }
    if (label_names_ && *label_names_ != names) fault("other labels than the series before");
    label_names_ = names;
  }

  void check(const Labels& labels, const std::vector<std::pair<double, double>>& buckets) {
    for (std::size_t i = 1; i < buckets.size(); ++i) {
      if (buckets[i].first <= buckets[i - 1].first) fault("buckets out of order");
      if (buckets[i].second < buckets[i - 1].second) fault("buckets that are not cumulative");
    }
    if (!std::isinf(buckets.back().first)) fault("no bucket +Inf");
    if (!counts_.contains(labels) || counts_[labels] != buckets.back().second) fault("no _count");
    if (!sums_.contains(labels)) fault("no _sum");
  }

  std::string line_;
  std::string family_;
  std::string type_;
  std::size_t samples_ = 0;
  std::set<std::string> names_;
  std::optional<std::set<std::string>> label_names_;
  std::map<std::string, double> series_;
  std::map<std::string, std::string> types_;
  std::map<Labels, std::vector<std::pair<double, double>>> buckets_;
  std::map<Labels, double> counts_;
  std::map<Labels, double> sums_;
  std::vector<std::string> faults_;
};

net::tls::Certificate certificate(std::string subject, std::int64_t expiry) {
  return {.subject = std::move(subject),
          .file = "/etc/x.pem",
          .not_before = {},
          .not_after = std::chrono::sys_seconds(std::chrono::seconds(expiry))};
}

state::Snapshot sample() {
  state::Snapshot snapshot;
  auto odd = test::rule("shop.\"\\*", "a\nb");
  snapshot.rules = test::rule_set_of(test::rule("shop.orders", "number"), std::move(odd),
                                     test::rule("shop.orders", "number"));
  snapshot.rules->outcomes(0).assigned += 12;
  snapshot.rules->outcomes(0)
      .forwarded[static_cast<std::size_t>(rewrite::ForwardReason::replacement)] = 4;
  snapshot.rules->outcomes(1).cured = 3;
  snapshot.not_ready = {0, 2, 0};
  snapshot.numbers = {{0, "shop.orders", ids::CounterNumbers{1001, 99, 9000}},
                      {1, "shop.HIDDEN1", ids::SpaceUse{880, 0.5, 0.75}},
                      {1, "shop.HIDDEN2", ids::SpaceUse{20, 0.25, 0.75}}};
  snapshot.net.listeners = {
      {.listener = "127.0.0.1:27117", .server = "db1:27017", .up = true, .connections = 3},
      {.listener = "127.0.0.1:27118", .server = "db2:27017", .connect_failures = 7}};
  snapshot.net.counted[net::Counted::bytes_from_clients] = std::uint64_t{1} << 40;
  snapshot.net.insert_added.counts = {1, 0, 2};
  snapshot.net.insert_added.counts.back() = 4;
  snapshot.net.insert_added.sum_seconds = 44.5;
  snapshot.client_side = {certificate("CN=proxy,O=\"Example\"", 1'900'000'000),
                          certificate("CN=ca", 1'800'000'000), certificate("CN=ca", 2'000'000'000)};
  snapshot.server_side = {certificate("CN=ca", 1'700'000'000)};
  snapshot.reloads = {
      .succeeded = 5, .failed = 2, .last_success = std::chrono::seconds(1'750'000'000)};
  return snapshot;
}

std::string text_of(const std::optional<state::Snapshot>& shown) {
  return exposition("1.2.3", state::process_statistics(), {.suppressed = 8, .dropped = 9}, shown);
}

TEST(ExpositionTest, IsValid) {
  for (const std::optional<state::Snapshot>& each :
       {std::optional<state::Snapshot>(), {sample()}}) {
    const Exposition page(text_of(each));
    EXPECT_THAT(page.faults(), ::testing::IsEmpty());
  }
}

TEST(ExpositionTest, ShowsEachFigure) {
  const state::Snapshot shown = sample();
  const auto series = Exposition(text_of(shown)).series();
  const auto value = [&](const std::string& name) {
    const auto found = series.find(name);
    return found == series.end() ? -1 : found->second;
  };
  EXPECT_EQ(value("idproxy_build_info{version=\"1.2.3\"}"), 1);
  EXPECT_EQ(value("idproxy_rule_values_assigned_total{rule=\"0\",ns=\"shop.orders\","
                  "field=\"number\",strategy=\"counting\"}"),
            12);
  EXPECT_EQ(value("idproxy_rule_upserts_forwarded_total{rule=\"0\",ns=\"shop.orders\","
                  "field=\"number\",strategy=\"counting\",reason=\"replacement\"}"),
            4);
  EXPECT_EQ(value("idproxy_rule_documents_cured_total{rule=\"1\",ns=\"shop.\\\"\\\\*\","
                  "field=\"a\\\\u000ab\",strategy=\"counting\"}"),
            3);
  EXPECT_EQ(value("idproxy_rule_collections_not_ready{rule=\"1\",ns=\"shop.\\\"\\\\*\","
                  "field=\"a\\\\u000ab\",strategy=\"counting\"}"),
            2);
  const std::string first =
      "{rule=\"0\",ns=\"shop.orders\",field=\"number\",strategy=\"counting\"}";
  EXPECT_EQ(value("idproxy_rule_next_number" + first), 1001);
  EXPECT_EQ(value("idproxy_rule_numbers_held" + first), 99);
  EXPECT_EQ(value("idproxy_rule_numbers_left" + first), 9000);
  const std::string second =
      "{rule=\"1\",ns=\"shop.\\\"\\\\*\",field=\"a\\\\u000ab\",strategy=\"counting\"}";
  EXPECT_EQ(value("idproxy_rule_documents" + second), 880);
  EXPECT_EQ(value("idproxy_rule_fill_ratio" + second), 0.5);
  EXPECT_EQ(value("idproxy_rule_max_fill_ratio" + second), 0.75);
  EXPECT_EQ(value("idproxy_rule_fill_ratio" + first), -1) << "no random numbers";
  EXPECT_EQ(value("idproxy_listener_up{listener=\"127.0.0.1:27117\",server=\"db1:27017\"}"), 1);
  EXPECT_EQ(value("idproxy_listener_connect_failures_total{listener=\"127.0.0.1:27118\","
                  "server=\"db2:27017\"}"),
            7);
  EXPECT_EQ(value("idproxy_bytes_total{peer=\"client\",direction=\"received\"}"), std::pow(2, 40));
  EXPECT_EQ(value("idproxy_insert_added_seconds_bucket{le=\"5e-05\"}"), 1);
  EXPECT_EQ(value("idproxy_insert_added_seconds_bucket{le=\"0.00025\"}"), 3);
  EXPECT_EQ(value("idproxy_insert_added_seconds_bucket{le=\"10\"}"), 3);
  EXPECT_EQ(value("idproxy_insert_added_seconds_bucket{le=\"+Inf\"}"), 7);
  EXPECT_EQ(value("idproxy_insert_added_seconds_sum{}"), 44.5);
  EXPECT_EQ(value("idproxy_config_reloads_total{result=\"failure\"}"), 2);
  EXPECT_EQ(value("idproxy_config_last_reload_successful{}"), 1);
  EXPECT_EQ(value("idproxy_tls_certificate_expiry_timestamp_seconds{side=\"client\","
                  "file=\"/etc/x.pem\",subject=\"CN=ca\"}"),
            2'000'000'000);
  EXPECT_EQ(value("idproxy_tls_certificate_expiry_timestamp_seconds{side=\"server\","
                  "file=\"/etc/x.pem\",subject=\"CN=ca\"}"),
            1'700'000'000);
  EXPECT_EQ(value("idproxy_log_lines_suppressed_total{}"), 8);
  EXPECT_EQ(value("idproxy_log_lines_dropped_total{}"), 9);
}

TEST(ExpositionTest, NamesNoCollectionThatClientsMayHaveNamed) {
  const state::Snapshot shown = sample();
  EXPECT_THAT(text_of(shown), Not(HasSubstr("HIDDEN")));
}

/// Adding one to each in turn changes one series.
TEST(ExpositionTest, ShowsEachKindThatIsCountedOnce) {
  state::Snapshot shown = sample();
  shown.net.counted = {};
  const auto before = Exposition(text_of(shown)).series();
  std::set<std::string> changed;
  for (std::size_t kind = 0; kind < net::kCountedKinds; ++kind) {
    shown.net.counted = {};
    shown.net.counted[static_cast<net::Counted>(kind)] = 1;
    std::size_t count = 0;
    const auto series = Exposition(text_of(shown)).series();
    for (const auto& [name, value] : series) {
      if (name.starts_with("process_") || value == before.at(name)) continue;
      ++count;
      EXPECT_TRUE(changed.insert(name).second) << name;
    }
    EXPECT_EQ(count, 1U) << "kind " << kind;
  }
}

/// Of rules for shop.orders and shop.*.
class RuleNumbersTest : public ::testing::Test {
 protected:
  void show(std::vector<ids::RuleNumbers> numbers) {
    state::Snapshot shown;
    shown.rules =
        test::rule_set_of(test::rule("shop.orders", "number"), test::rule("shop.*", "code"));
    shown.numbers = std::move(numbers);
    series_ = Exposition(text_of(shown)).series();
  }
  /// Of a rule; -1: none.
  [[nodiscard]] double value(const std::string& name, int rule) const {
    const std::string start = "idproxy_rule_" + name + "{rule=\"" + std::to_string(rule) + "\",";
    const auto found = series_.lower_bound(start);
    return found != series_.end() && found->first.starts_with(start) ? found->second : -1;
  }

 private:
  std::map<std::string, double> series_;
};

using ids::CounterNumbers;
using ids::SpaceUse;

TEST_F(RuleNumbersTest, AreNoneOfARuleWithoutNumbers) {
  show({});
  for (const char* name : {"next_number", "numbers_held", "numbers_left", "fill_ratio"}) {
    EXPECT_EQ(value(name, 0), -1) << name;
  }
}

TEST_F(RuleNumbersTest, OfOneCounterAreItsOwn) {
  show({{0, "shop.orders", CounterNumbers{1001, 99, 9000}}});
  EXPECT_EQ(value("next_number", 0), 1001);
  EXPECT_EQ(value("numbers_held", 0), 99);
  EXPECT_EQ(value("numbers_left", 0), 9000);
  EXPECT_EQ(value("numbers_held", 1), -1);
}

TEST_F(RuleNumbersTest, OfSeveralCountersHaveTheFewestLeft) {
  show({{1, "shop.a", CounterNumbers{5, 10, 700}},
        {1, "shop.b", CounterNumbers{{}, 1, {}}},
        {1, "shop.c", CounterNumbers{9, 20, 300}}});
  EXPECT_EQ(value("next_number", 1), -1) << "of which one?";
  EXPECT_EQ(value("numbers_held", 1), 31);
  EXPECT_EQ(value("numbers_left", 1), 300);
}

TEST_F(RuleNumbersTest, OfACounterOfAllCollectionsAreItsOwn) {
  show({{1, "shop.*", CounterNumbers{5, 10, 700}}});
  EXPECT_EQ(value("next_number", 1), 5);
}

TEST_F(RuleNumbersTest, OfRangesHaveThoseThatAreLive) {
  show({{0, "shop.orders", CounterNumbers{5, 10, 700, CounterNumbers::Ranges{3, 1000}}}});
  EXPECT_EQ(value("numbers_left", 0), 700);
  EXPECT_EQ(value("ranges_live", 0), 3);
  EXPECT_EQ(value("ranges_live", 1), -1);
}

TEST_F(RuleNumbersTest, OfSpacesAreThoseOfTheFullest) {
  show({{1, "shop.a", SpaceUse{10, 0.01, 0.9}},
        {1, "shop.b", SpaceUse{{}, 0.5, 0.9}},
        {1, "shop.c", SpaceUse{20, 0.02, 0.9}}});
  EXPECT_EQ(value("fill_ratio", 1), 0.5);
  EXPECT_EQ(value("documents", 1), -1);
}

TEST(ExpositionTest, ShowsTheProcess) {
  const std::vector<char> memory(std::size_t{64} << 20, 'x');
  const auto series = Exposition(text_of(std::nullopt)).series();
  EXPECT_GT(series.at("process_resident_memory_bytes{}"), static_cast<double>(memory.size()));
  EXPECT_GE(series.at("process_virtual_memory_bytes{}"),
            series.at("process_resident_memory_bytes{}"));
  EXPECT_GT(series.at("process_cpu_seconds_total{}"), 0);
  EXPECT_GT(series.at("process_max_fds{}"), series.at("process_open_fds{}"));
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(series.at("process_start_time_seconds{}"), now, 600);
  EXPECT_EQ(Exposition(text_of(std::nullopt)).series().at("process_start_time_seconds{}"),
            series.at("process_start_time_seconds{}"));
}

TEST(ExpositionTest, CountsItsDescriptors) {
  const auto before = state::process_statistics().open_fds;
  std::vector<std::ifstream> files;
  for (int i = 0; i < 10; ++i) files.emplace_back("/dev/null");
  EXPECT_EQ(state::process_statistics().open_fds, before + 10);
}

// The parser of this test can find faults.

TEST(Parser, FindsFaults) {
  const std::string head = "# HELP idproxy_x_total Help.\n# TYPE idproxy_x_total counter\n";
  EXPECT_TRUE(Exposition(head + "idproxy_x_total 1\n").faults().empty());
  for (const std::string& bad :
       {head, head + "idproxy_x_total 1", head + "idproxy_x_total -1\n",
        head + "idproxy_y_total 1\n", head + "idproxy_x_total{a=\"b} 1\n",
        head + "idproxy_x_total{a=\"b\",} 1\n", head + "idproxy_x_total 1\nidproxy_x_total 2\n",
        head + "idproxy_x_total{a=\"b\"} 1\nidproxy_x_total{c=\"b\"} 2\n", head + head,
        std::string("idproxy_x_total 1\n"),
        std::string("# HELP idproxy_x Help.\n# TYPE idproxy_x counter\nidproxy_x 1\n"),
        std::string("# HELP x_total Help.\n# TYPE x_total counter\nx_total 1\n")}) {
    EXPECT_FALSE(Exposition(bad).faults().empty()) << bad;
  }
  const std::string histogram =
      "# HELP idproxy_s_seconds Help.\n# TYPE idproxy_s_seconds histogram\n";
  const std::string good =
      "idproxy_s_seconds_count 3\nidproxy_s_seconds_sum 1\nidproxy_s_seconds_bucket{le=\"1\"} 2\n"
      "idproxy_s_seconds_bucket{le=\"+Inf\"} 3\n";
  EXPECT_TRUE(Exposition(histogram + good).faults().empty());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return Exposition(histogram + text).faults().size();
  };
  EXPECT_GT(with("_count 3", "_count 2"), 0U);
  EXPECT_GT(with("le=\"+Inf\"} 3", "le=\"+Inf\"} 1"), 0U);
  EXPECT_GT(with("le=\"+Inf\"", "le=\"2\""), 0U);
  EXPECT_GT(with("idproxy_s_seconds_sum 1\n", ""), 0U);
}

}  // namespace exposition_test
}  // namespace idproxy::app::views
