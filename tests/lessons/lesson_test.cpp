#include <gtest/gtest.h>

#include <string>

#include "house/source_tree.h"
#include "lessons/arithmetic.h"
#include "lessons/readme.h"

// Tests a lesson against its program: output, quoted code, numbers, picture, links.

namespace nanofsdp::lessons {
namespace {

constexpr bool kPictures = NANOFSDP_PICTURES;

std::ptrdiff_t words(const std::string& prose) {
  static const std::regex word("[A-Za-z][A-Za-z'-]*");
  return std::distance(std::sregex_iterator(prose.begin(), prose.end(), word), {});
}

class Lesson : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  const std::filesystem::path& folder() const { return GetParam(); }
  Readme readme() const { return Readme(folder() / "README.md"); }

  void expect(Readme& readme, const Quote& quote, const std::string& actual) const {
    if (updating() && quote.text != actual) {
      readme.rewrite(quote, actual);
    } else {
      EXPECT_EQ(quote.text, actual) << quote.source << "; UPDATE_LESSONS=1 rewrites it";
    }
  }
};

// The numbers that the program has measured, as it prints them beside guesses.
std::vector<std::string> measured(const std::string& table) {
  static const std::regex row("\n[0-9]+ +\\S+ +(-?[0-9]+)");
  std::vector<std::string> found;
  for (std::sregex_iterator m(table.begin(), table.end(), row), end; m != end; ++m) {
    found.push_back((*m)[1]);
  }
  return found;
}

// The first numbers in the fold "Answer" of the page.
std::vector<std::string> answers(const std::string& page, std::size_t count) {
  static const std::regex number("[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+");
  const std::size_t fold = page.find("<details><summary>Answer</summary>");
  const std::string text = page.substr(fold, page.find("</details>", fold) - fold);
  std::vector<std::string> found;
  for (std::sregex_iterator m(text.begin(), text.end(), number), end; m != end; ++m) {
    if (found.size() < count) found.push_back(without_commas(m->str()));
  }
  return found;
}

// The program runs once, with a picture and guesses, because some programs train for seconds. The
// output after the guesses is not quoted.
TEST_P(Lesson, PrintsAndDrawsWhatItsReadmeSays) {
  const testing::TemporaryDirectory directory;
  const std::string drawn = directory.file("drawn.svg");
  const Ran ran = run(program(folder()) + " --svg=" + drawn + " 1 -2 3");
  ASSERT_EQ(ran.code, 0) << "a run that fails is not quoted";
  const std::size_t guesses = ran.out.find("\n\nquestion ");
  ASSERT_NE(guesses, ran.out.npos) << ran.out;
  EXPECT_NE(ran.out.find(" yours ", guesses), ran.out.npos) << ran.out;
  // No answer is -2, so the program says kindly where to look.
  EXPECT_NE(ran.out.find("  a surprise\n", guesses), ran.out.npos) << ran.out;
  EXPECT_NE(ran.out.find("The fold \"Answer\" on the page", guesses), ran.out.npos) << ran.out;
  EXPECT_NE(ran.out.find("\nok: "), ran.out.npos) << ran.out;
  Readme text = readme();
  const std::vector<std::string> numbers = measured(ran.out.substr(guesses + 1));
  EXPECT_GE(numbers.size(), 2u);
  EXPECT_EQ(answers(text.text(), numbers.size()), numbers) << "the page answers otherwise";
  int outputs = 0;
  for (const Quote& quote : text.quotes()) {
    if (quote.kind != "output") continue;
    ++outputs;
    EXPECT_EQ(quote.source, "lessons/" + folder().filename().string());
    expect(text, quote, ran.out.substr(0, guesses));
  }
  EXPECT_EQ(outputs, 1);

  const auto picture = folder() / (name_of(folder()) + ".svg");
  EXPECT_NE(text.text().find("(" + picture.filename().string() + ")"), std::string::npos);
  // On machines with narrow registers a line may be drawn a hundredth of a pixel away.
  // `make lessons` compares pictures.
  if (!kPictures) return;
  if (updating()) {
    std::filesystem::copy_file(drawn, picture, std::filesystem::copy_options::overwrite_existing);
  }
  ASSERT_TRUE(std::filesystem::exists(picture)) << "UPDATE_LESSONS=1 writes it";
  EXPECT_EQ(testing::read_file(picture.string()), testing::read_file(drawn));
}

TEST_P(Lesson, RefusesAGuessThatIsNoNumber) { EXPECT_NE(run(program(folder()) + " many").code, 0); }

TEST_P(Lesson, QuotesTheCodeAsItIs) {
  Readme text = readme();
  int quotes = 0;
  for (const Quote& quote : text.quotes()) {
    if (quote.kind != "from") continue;
    ++quotes;
    const std::size_t hash = quote.source.find('#');
    const auto path = kSource / quote.source.substr(0, hash);
    ASSERT_TRUE(std::filesystem::exists(path)) << quote.source;
    expect(text, quote, snippet(testing::read_file(path.string()), quote.source.substr(hash + 1)));
  }
  EXPECT_GE(quotes, 1);
}

// Every number from ten on is in the output of the program, or a formula beside the prose gives it.
TEST_P(Lesson, BacksItsNumbers) {
  const Readme text = readme();
  std::string known;
  for (const Quote& quote : text.quotes()) {
    if (quote.kind == "output") known += quote.text + "\n";
  }
  for (const std::string& equation : text.equations()) {
    EXPECT_EQ(complaint(equation), "");
    known += equation.substr(0, equation.find('=')) + "\n";
  }
  for (const std::string& number : numerals(text.prose())) {
    EXPECT_TRUE(holds_number(known, number)) << number << " stands in the prose only";
  }
}

// If a digit is changed by accident, it may make another number that the page has. So the page is
// sealed: it ends with a hash of all digits that no other test compares. An author renews the hash
// on purpose.
TEST_P(Lesson, IsSealed) {
  Readme text = readme();
  const std::string seal = "<!-- seal: " + hash_of_digits(text.unquoted()) + " -->";
  if (updating()) text.reseal(seal);
  EXPECT_NE(text.text().find(seal), std::string::npos)
      << "a digit of the page has changed; if it was meant to: UPDATE_LESSONS=1";
}

TEST_P(Lesson, HasTheHeadingsOfEveryLesson) {
  const std::string text = readme().text();
  std::size_t at = 0;
  for (const std::string heading :
       {"\n## Where we are\n", "\n## Predict\n", "\n## The idea\n", "\n## By hand\n",
        "\n## Run it\n", "\n## What the numbers say\n", "\n## In the library\n", "\n## Your turn\n",
        "\n## In a sentence\n", "\n## In PyTorch\n", "\n## Takeaway\n"}) {
    const std::size_t found = text.find(heading, at);
    ASSERT_NE(found, text.npos) << heading << " is missing or comes too early";
    at = found;
  }
  const std::size_t pytorch = text.find("\n## In PyTorch\n");
  EXPECT_LT(text.find("\n```python\n", pytorch), at) << "In PyTorch has no line of Python";
  EXPECT_TRUE(text.starts_with("# " + number_of(folder()) + " · "));
  EXPECT_NE(text.find("<details><summary>Answer</summary>"), text.npos);
  // A page takes ten minutes to read. Folds are read afterwards.
  EXPECT_LE(words(readme().open_prose()), 1000);
  EXPECT_LE(words(readme().prose()), 1300);
}

// After the exercise a question asks for a sentence. The reader writes one before opening the fold.
TEST_P(Lesson, AsksForASentenceAndHasAModelAnswer) {
  static const std::regex question(
      "\n## In a sentence\n\n([^\n]+\\?)\n\n<details><summary>A model answer</summary>\n\n"
      "([^\n]+\\.)\n\n</details>\n");
  const std::string text = readme().text();
  std::smatch m;
  ASSERT_TRUE(std::regex_search(text, m, question));
  EXPECT_LE(words(m[1]), 40);
  EXPECT_GE(words(m[2]), 15) << "an answer gives a reason";
  EXPECT_LE(words(m[2]), 60);
}

// The program shows one idea. Helpers of several lessons lie in lessons/frame.
TEST_P(Lesson, IsAProgramOfAtMost120Lines) {
  EXPECT_LE(house::lines_of_code(folder() / (name_of(folder()) + ".cpp")), 120);
}

INSTANTIATE_TEST_SUITE_P(Lessons, Lesson, ::testing::ValuesIn(lesson_folders()),
                         [](const auto& info) { return number_of(info.param); });

}  // namespace
}  // namespace nanofsdp::lessons
