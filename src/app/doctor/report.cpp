#include "app/doctor/report.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <cstddef>
#include <optional>

#include "app/views/text_table.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/base/printable.hpp"

namespace idproxy::app::doctor {
namespace {

namespace json = boost::json;

struct LevelWords {
  const char* one;
  const char* several;
  views::Tone tone;
  Diagnosis::Level level;
};
constexpr std::array<LevelWords, 3> kLevels{{
    {"error", "errors", views::Tone::bad, Diagnosis::Level::error},
    {"warning", "warnings", views::Tone::warning, Diagnosis::Level::warning},
    {"note", "notes", views::Tone::faint, Diagnosis::Level::note},
}};

const LevelWords& words_of(Diagnosis::Level level) {
  return *std::ranges::find(kLevels, level, &LevelWords::level);
}

/// The worst level among a check's findings.
std::optional<Diagnosis::Level> worst_of(const DoctorCheck& check) {
  std::optional<Diagnosis::Level> worst;
  for (const DoctorFinding& each : check.findings) {
    if (!worst || each.diagnosis.level < *worst) worst = each.diagnosis.level;
  }
  return worst;
}

std::string result_of(const DoctorCheck& check) {
  const auto worst = worst_of(check);
  if (worst) return words_of(*worst).one;
  return check.skipped ? "skipped" : "ok";
}

std::size_t count(const DoctorReport& report, Diagnosis::Level level) {
  std::size_t found = 0;
  for (const DoctorCheck& check : report.checks) {
    found += static_cast<std::size_t>(std::ranges::count_if(
        check.findings,
        [level](const DoctorFinding& each) { return each.diagnosis.level == level; }));
  }
  return found;
}

bool is_for_mongosh(const TypedCommand& command) {
  return command.in == TypedCommand::In::mongosh;
}

std::string checks_text(const DoctorReport& report, const views::Terminal& terminal) {
  views::TextTable table({{"RESULT"}, {"CHECK"}, {"LOOKED AT"}});
  for (const DoctorCheck& check : report.checks) {
    const auto worst = worst_of(check);
    const views::Tone tone = worst           ? words_of(*worst).tone
                             : check.skipped ? views::Tone::faint
                                             : views::Tone::good;
    table.add({{result_of(check), tone}, {check.name}, {check.what}});
  }
  return table.text(terminal);
}

std::string finding_text(const DoctorFinding& finding, const views::Terminal& terminal) {
  const LevelWords& level = words_of(finding.diagnosis.level);
  const std::string head =
      std::string(level.one) + ": " + finding.diagnosis.id + ": " + printable(finding.subject);
  std::string text = terminal.coloured(head, level.tone) + '\n';
  text += terminal.wrapped("  ", finding.text, 2);
  // Whole, so that they can be copied.
  for (const TypedCommand& command : finding.commands.all()) {
    text += (is_for_mongosh(command) ? "  mongosh> " : "  $ ") + command.line() + '\n';
  }
  return text;
}

/// "1 error, 2 warnings"
std::string summary_of(const DoctorReport& report) {
  std::string text;
  for (const LevelWords& each : kLevels) {
    const std::size_t found = count(report, each.level);
    if (found == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(found) + " " +
            (found == 1 ? each.one : each.several);
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

json::object finding_json(const DoctorFinding& finding, const std::string& check) {
  json::array commands;
  for (const TypedCommand& each : finding.commands.all()) {
    commands.push_back(json::object{{"in", is_for_mongosh(each) ? "mongosh" : "shell"},
                                    {"command", each.line()},
                                    {"words", json::array(each.words.begin(), each.words.end())}});
  }
  return json::object{{"id", finding.diagnosis.id},
                      {"level", words_of(finding.diagnosis.level).one},
                      {"check", check},
                      {"subject", finding.subject},
                      {"text", finding.text},
                      {"commands", std::move(commands)},
                      {"link", std::string("troubleshooting.md#") + finding.diagnosis.id}};
}

}  // namespace

std::string doctor_text(const DoctorReport& report, const views::Terminal& terminal) {
  if (summary_of(report).empty()) return clean_text(report, terminal);
  std::string text = checks_text(report, terminal);
  for (const LevelWords& level : kLevels) {
    for (const DoctorCheck& check : report.checks) {
      for (const DoctorFinding& each : check.findings) {
        if (each.diagnosis.level == level.level) text += '\n' + finding_text(each, terminal);
      }
    }
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
  for (const LevelWords& level : kLevels) {
    for (const DoctorCheck& check : report.checks) {
      for (const DoctorFinding& each : check.findings) {
        if (each.diagnosis.level == level.level) {
          findings.push_back(finding_json(each, check.name));
        }
      }
    }
  }
  json::object out{{"version", version()},
                   {"file", report.file},
                   {"checks", std::move(checks)},
                   {"findings", std::move(findings)}};
  for (const LevelWords& each : kLevels) out[each.several] = count(report, each.level);
  return out;
}

bool has_faults(const DoctorReport& report) {
  return count(report, Diagnosis::Level::error) + count(report, Diagnosis::Level::warning) > 0;
}

}  // namespace idproxy::app::doctor
