#include "app/doctor/report.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "app/json_view.hpp"
#include "app/views/text_table.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::doctor {
namespace {

namespace json = boost::json;

constexpr std::array kLevels{FindingLevel::error, FindingLevel::warning, FindingLevel::note};

views::Tone tone_of(FindingLevel level) {
  constexpr std::array kTones{views::Tone::bad, views::Tone::warning, views::Tone::faint};
  return kTones[static_cast<std::size_t>(level)];
}

/// The worst level among a check's findings.
std::optional<FindingLevel> worst_of(const DoctorCheck& check) {
  std::optional<FindingLevel> worst;
  for (const Finding& each : check.findings) {
    if (!worst || each.kind.level < *worst) worst = each.kind.level;
  }
  return worst;
}

std::string result_of(const DoctorCheck& check) {
  const auto worst = worst_of(check);
  if (worst) return std::string(name_of(*worst));
  return check.skipped ? "skipped" : "ok";
}

std::size_t count(const DoctorReport& report, FindingLevel level) {
  std::size_t found = 0;
  for (const DoctorCheck& check : report.checks) {
    found += static_cast<std::size_t>(std::ranges::count_if(
        check.findings, [level](const Finding& each) { return each.kind.level == level; }));
  }
  return found;
}

std::vector<std::pair<const DoctorCheck*, const Finding*>> worst_first(const DoctorReport& report) {
  std::vector<std::pair<const DoctorCheck*, const Finding*>> all;
  for (const FindingLevel level : kLevels) {
    for (const DoctorCheck& check : report.checks) {
      for (const Finding& each : check.findings) {
        if (each.kind.level == level) all.emplace_back(&check, &each);
      }
    }
  }
  return all;
}

std::string checks_text(const DoctorReport& report, const views::Terminal& terminal) {
  views::TextTable table({{"RESULT"}, {"CHECK"}, {"LOOKED AT"}});
  for (const DoctorCheck& check : report.checks) {
    const auto worst = worst_of(check);
    const views::Tone tone = worst           ? tone_of(*worst)
                             : check.skipped ? views::Tone::faint
                                             : views::Tone::good;
    table.add({{result_of(check), tone}, {check.name}, {check.what}});
  }
  return table.text(terminal);
}

std::string finding_text(const Finding& finding, const views::Terminal& terminal) {
  const FindingLevel level = finding.kind.level;
  const std::string head =
      std::string(name_of(level)) + ": " + finding.kind.id + ": " + printable(finding.subject);
  std::string text = terminal.coloured(head, tone_of(level)) + '\n';
  text += terminal.wrapped("  ", finding.text(), 2);
  // Whole, so that they can be copied.
  const Commands commands = finding.commands();
  for (const TypedCommand& each : commands.all()) {
    text += (each.in == TypedCommand::In::mongosh ? "  mongosh> " : "  $ ") + each.line() + '\n';
  }
  return text;
}

/// "1 error, 2 warnings"
std::string summary_of(const DoctorReport& report) {
  std::string text;
  for (const FindingLevel each : kLevels) {
    const std::size_t found = count(report, each);
    if (found == 0) continue;
    text += (text.empty() ? "" : ", ") + count_of(found, name_of(each));
  }
  return text;
}

/// "nothing is wrong; looked at: 4 rules; 2 ports; …"
std::string clean_text(const DoctorReport& report, const views::Terminal& terminal) {
  std::string looked;
  for (const DoctorCheck& check : report.checks) {
    if (!check.skipped) looked += (looked.empty() ? "" : ", ") + check.name;
  }
  std::string skipped;
  for (const DoctorCheck& check : report.checks) {
    if (check.skipped) skipped += "; " + check.name + ": " + printable(check.what);
  }
  return terminal.coloured("Nothing is wrong", views::Tone::good) + " with " + looked + skipped +
         '\n';
}

}  // namespace

json::object finding_json(const Finding& finding, const std::string& check) {
  return json::object{{"id", finding.kind.id},
                      {"level", name_of(finding.kind.level)},
                      {"check", check},
                      {"subject", finding.subject},
                      {"text", finding.text()},
                      {"commands", commands_json(finding.commands())},
                      {"link", std::string("troubleshooting.md#") + finding.kind.id}};
}

std::string findings_text(const std::vector<Finding>& findings, const views::Terminal& terminal) {
  std::string text;
  for (const FindingLevel level : {FindingLevel::error, FindingLevel::warning}) {
    for (const Finding& each : findings) {
      if (each.kind.level == level) text += '\n' + finding_text(each, terminal);
    }
  }
  return text;
}

std::string doctor_text(const DoctorReport& report, const views::Terminal& terminal) {
  if (summary_of(report).empty()) return clean_text(report, terminal);
  std::string text = checks_text(report, terminal);
  for (const auto& [check, found] : worst_first(report)) {
    text += '\n' + finding_text(*found, terminal);
  }
  return text + '\n' + summary_of(report) +
         "; docs/troubleshooting.md explains each under its name\n";
}

json::object doctor_json(const DoctorReport& report) {
  json::array checks;
  json::array findings;
  for (const DoctorCheck& check : report.checks) {
    checks.push_back(json::object{
        {"check", check.name}, {"result", result_of(check)}, {"looked_at", check.what}});
  }
  for (const auto& [check, found] : worst_first(report)) {
    findings.push_back(finding_json(*found, check->name));
  }
  json::object out{{"version", version()},
                   {"file", report.file},
                   {"checks", std::move(checks)},
                   {"findings", std::move(findings)}};
  for (const FindingLevel each : kLevels)
    out[std::string(name_of(each)) + 's'] = count(report, each);
  return out;
}

bool has_faults(const DoctorReport& report) {
  return count(report, FindingLevel::error) + count(report, FindingLevel::warning) > 0;
}

}  // namespace idproxy::app::doctor
