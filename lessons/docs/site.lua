-- Formulas of GitHub's Markdown as formulas, and no comments.
function CodeBlock(block)
  if block.classes[1] == "math" then
    return pandoc.Div({pandoc.Para{pandoc.Math("DisplayMath", block.text)}},
      pandoc.Attr("", {"wide", "formula"}))
  end
end

function RawBlock(block)
  if block.text:match("^%s*<!%-%-.*%-%->%s*$") then return {} end
end
