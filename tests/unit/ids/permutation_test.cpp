#include "idproxy/ids/permutation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "ids/encoding.hpp"
#include "ids/ff1.hpp"

// Vectors: NIST SP 800-38G, the samples of FF1, and what an independent implementation that has
// these makes of other texts.
namespace idproxy::ids {
namespace permutation_test {

using Zeros = Permutation::LeadingZeros;

std::string bytes(std::string_view hex) {
  std::string result;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    result += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return result;
}

const std::string kKey1 = bytes("2B7E151628AED2A6ABF7158809CF4F3C");
const std::string kKey2 = kKey1 + bytes("EF4359D8D580AA4F");
const std::string kKey3 = kKey2 + bytes("7F036D6F04FC6A94");

// ---- FF1

struct Sample {
  std::string key;
  std::string tweak;
  std::string_view alphabet;
  std::string_view plain;
  std::string_view secret;
};

std::string text_of(const Ff1::Halves& halves, std::string_view alphabet, std::size_t size) {
  std::string text(size, '?');
  auto* at = reinterpret_cast<std::uint8_t*>(text.data());
  encode(halves.high, alphabet, {at, size / 2});
  encode(halves.low, alphabet, {at + size / 2, size - size / 2});
  return text;
}

Ff1::Halves halves_of(std::string_view text, std::string_view alphabet) {
  return {decode(text.substr(0, text.size() / 2), alphabet, 128).value(),
          decode(text.substr(text.size() / 2), alphabet, 128).value()};
}

TEST(Ff1, SucceedsWithTheSamplesOfNist) {
  const std::string ten = bytes("39383736353433323130");
  const std::string eleven = bytes("3737373770717273373737");
  const std::string_view digits = alphabet_named("digits");
  const std::string_view base36 = alphabet_named("base36");
  const std::vector<Sample> samples{
      {kKey1, "", digits, "0123456789", "2433477484"},
      {kKey1, ten, digits, "0123456789", "6124200773"},
      {kKey1, eleven, base36, "0123456789abcdefghi", "a9tv40mll9kdu509eum"},
      {kKey2, "", digits, "0123456789", "2830668132"},
      {kKey2, ten, digits, "0123456789", "2496655549"},
      {kKey2, eleven, base36, "0123456789abcdefghi", "xbj3kv35jrawxv32ysr"},
      {kKey3, "", digits, "0123456789", "6657667009"},
      {kKey3, ten, digits, "0123456789", "1001623463"},
      {kKey3, eleven, base36, "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"},
  };
  for (const Sample& each : samples) {
    const std::size_t size = each.plain.size();
    const Ff1 ff1(each.key, each.tweak, static_cast<std::uint32_t>(each.alphabet.size()),
                  static_cast<std::uint32_t>(size));
    const auto secret = ff1.encrypt(halves_of(each.plain, each.alphabet));
    EXPECT_EQ(text_of(secret, each.alphabet, size), each.secret);
    EXPECT_EQ(text_of(ff1.decrypt(secret), each.alphabet, size), each.plain);
  }
}

TEST(Ff1, SucceedsBackFromEveryLength) {
  const std::string alphabet(alphabet_named("url64"));
  for (const std::uint32_t radix : {2U, 3U, 10U, 36U, 62U, 64U}) {
    const std::string_view its = std::string_view(alphabet).substr(0, radix);
    for (std::uint32_t length = 2; length <= Ff1::kMostLength; ++length) {
      const Ff1 ff1(kKey3, std::string(length, 't'), radix, length);
      std::string plain;
      for (std::uint32_t i = 0; i < length; ++i) plain += its[(i * 7 + 1) % radix];
      const auto secret = ff1.encrypt(halves_of(plain, its));
      EXPECT_LT(secret.high, ff1.ends().high);
      EXPECT_LT(secret.low, ff1.ends().low);
      EXPECT_EQ(text_of(ff1.decrypt(secret), its, length), plain) << radix << '^' << length;
    }
  }
}

// ---- permutations

Permutation of_digits(std::size_t length, Zeros zeros = Zeros::allowed, std::string tweak = "") {
  return {{std::string(alphabet_named("digits")), length, zeros}, std::move(tweak), kKey3};
}

std::string written(const Permutation& permutation, std::int64_t number) {
  std::string text(permutation.space().length, '?');
  permutation.write(number, reinterpret_cast<std::uint8_t*>(text.data()));
  return text;
}

std::vector<std::string> first(const Permutation& permutation, std::int64_t count) {
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < count; ++i) {
    texts.push_back(written(permutation, i));
    EXPECT_EQ(permutation.read(texts.back()), i);
  }
  return texts;
}

TEST(Permutation, SucceedsWithKnownValues) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(first(of_digits(6), 4), (Texts{"515643", "478044", "950430", "888207"}));
  EXPECT_EQ(written(of_digits(6), 999999), "334546");
  EXPECT_EQ(first(of_digits(12), 4),
            (Texts{"884549618075", "794797595155", "716614344422", "171153917394"}));
  EXPECT_EQ(first(of_digits(15), 4),
            (Texts{"751913648561635", "887992614425260", "421683611640890", "509675002688621"}));
  EXPECT_EQ(first(of_digits(12, Zeros::allowed, "shop.orders._id"), 4),
            (Texts{"943084739286", "799359511670", "443382037370", "061397148726"}));
  EXPECT_EQ(first(of_digits(12, Zeros::none), 4),
            (Texts{"984549618075", "894797595155", "816614344422", "271153917394"}));
  EXPECT_EQ(first(of_digits(6, Zeros::none), 5),
            (Texts{"615643", "578044", "893739", "988207", "659239"}));
}

void expect_all_distinct(const Permutation& permutation) {
  std::vector<bool> seen(1'000'000);
  for (std::int64_t i = 0; i <= permutation.max(); ++i) {
    const auto value = static_cast<std::size_t>(std::stoi(written(permutation, i)));
    ASSERT_FALSE(seen[value]) << i;
    seen[value] = true;
  }
}

TEST(Permutation, SucceedsWithAllNumbersOfSixDigits) {
  EXPECT_EQ(of_digits(6).max(), 999'999);
  expect_all_distinct(of_digits(6));
  const Permutation without_zeros = of_digits(6, Zeros::none);
  EXPECT_EQ(without_zeros.max(), 899'999);
  expect_all_distinct(without_zeros);
  EXPECT_EQ(without_zeros.read("099999"), std::nullopt);
}

TEST(Permutation, HasNoTextBeyondItsNumbers) {
  const Permutation without_zeros = of_digits(6, Zeros::none);
  for (const std::int64_t number : {std::int64_t{-1}, std::int64_t{900'000}, std::int64_t{999'999},
                                    std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(written(without_zeros, number), "      ") << number;
  }
}

/// Of spaces with more texts than there are numbers, most belong to none.
TEST(Permutation, ReadsNoNumberThatItDoesNotWrite) {
  const std::pair<std::string_view, std::size_t> spaces[] = {
      {"hex", 31}, {"hex", 32}, {"base32", 25}, {"base36", 25}, {"base58", 21}, {"base62", 22}};
  for (const auto& [name, length] : spaces) {
    const std::string alphabet(alphabet_named(name));
    const Permutation permutation({alphabet, length, Zeros::allowed}, "t", kKey1);
    for (std::size_t i = 0; i < 100; ++i) {
      std::string text;
      for (std::size_t at = 0; at < length; ++at) {
        text += alphabet[(i * 7919 + at * 104'729 + i * at * 31) % alphabet.size()];
      }
      const auto number = permutation.read(text);
      if (number) {
        EXPECT_EQ(written(permutation, *number), text) << name << '^' << length;
      }
    }
  }
}

TEST(Permutation, SucceedsWithTheLargestSpaces) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(of_digits(18).max(), 999'999'999'999'999'999);
  EXPECT_EQ(of_digits(19).max(), kMax);
  EXPECT_EQ(of_digits(36).max(), kMax);
  const Permutation largest({std::string(alphabet_named("url64")), 36, Zeros::allowed}, "t", kKey1);
  for (const std::int64_t number : {std::int64_t{0}, kMax - 1, kMax}) {
    EXPECT_EQ(largest.read(written(largest, number)), number);
  }
  // Hardly any text of so large a space is that of a number.
  EXPECT_EQ(largest.read(std::string(36, 'u')), std::nullopt);
  EXPECT_EQ(largest.read(std::string(35, 'u')), std::nullopt);
  EXPECT_EQ(largest.read(std::string(36, '!')), std::nullopt);
}

TEST(Permutation, TellsItsKeysApart) {
  const auto seal = of_digits(12, Zeros::allowed, "shop.orders._id").seal();
  EXPECT_EQ(seal.fpe, "38608fbf02f78add");
  EXPECT_EQ(seal.space, "10^12");
  EXPECT_EQ(of_digits(7, Zeros::none).seal().space, "10^7 nz");
  const Permutation own({"xyz", 20, Zeros::allowed}, "shop.orders._id", kKey3);
  EXPECT_EQ(own.seal().fpe, "38608fbf02f78add");
  EXPECT_EQ(own.seal().space, "3^20 xyz");
  const auto space_of = [](std::string_view name) {
    return Permutation({std::string(alphabet_named(name)), 8}, "t", kKey3).seal().space;
  };
  EXPECT_EQ(space_of("base32"), "32^8 " + std::string(alphabet_named("base32")));
  EXPECT_NE(space_of("base32"), space_of("base32upper"));
}

}  // namespace permutation_test
}  // namespace idproxy::ids
