#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Commands that a person is advised to type, made where their words are known. No word of a
/// stranger may do more than it stands for, or look like another one.
namespace idproxy {

/// One command.
struct TypedCommand {
  enum class In { shell, mongosh };
  In in;
  /// As the shell is to hand them over. Of mongosh, one: the statement.
  std::vector<std::string> words;

  /// As it is typed, with quotes around the words that need them.
  [[nodiscard]] std::string line() const;
  friend bool operator==(const TypedCommand&, const TypedCommand&) = default;
};

/// Commands to type, in this order. One whose line could not be shown as it is, is left out: the
/// text beside it says what is to be done.
class Commands {
 public:
  /// In a shell of this host.
  Commands& shell(std::vector<std::string> words) {
    return add({TypedCommand::In::shell, std::move(words)});
  }
  /// Left out, too, if one of the names in it, which stand there in_quotes(), is not is_name().
  Commands& mongosh(std::string statement, std::initializer_list<std::string_view> names = {});
  Commands& append(const Commands& others);

  [[nodiscard]] const std::vector<TypedCommand>& all() const { return all_; }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  /// In a sentence: "db.a() or db.b()".
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Commands&, const Commands&) = default;

 private:
  Commands& add(TypedCommand command);
  std::vector<TypedCommand> all_;
};

/// What is so, and what to do about it.
struct Reason {
  std::string text;
  std::string_view lead = ": ";  ///< between the text and the commands, if there are any
  Commands commands{};
  /// "the user needs a role: db.grantRolesToUser(…)"
  [[nodiscard]] std::string whole() const;
};

/// The word as a POSIX shell takes it for one, in quotes only if it needs them.
[[nodiscard]] std::string in_shell(std::string_view word);
/// The path, with "./" in front if a program could take it for an option.
[[nodiscard]] std::string as_path(std::string_view file);
/// {"--ns", "shop.orders"}, or {"--ns=-x.y"} for what looks like another option.
[[nodiscard]] std::vector<std::string> with_option(std::vector<std::string> words,
                                                   std::string_view option, std::string_view value);

/// True for what can be the name of a host, as a command for ssh or the name service takes it:
/// letters, digits, "-", "_" and ".", and not first "-"; or an IP address.
[[nodiscard]] bool is_host_name(std::string_view text);
/// True for a name of a database, collection, field, index, user or role that is no trap: it is
/// printable, and has no quotes and no backslash.
[[nodiscard]] bool is_name(std::string_view text);

}  // namespace idproxy
