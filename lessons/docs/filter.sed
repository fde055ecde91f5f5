#!/usr/bin/sed -Ef
# What GitHub's Markdown says and Doxygen's does not understand, in Doxygen's words.

# Formulas.
s/\$`([^`]*)`\$/\\f$\1\\f$/g
/^```math$/,/^```$/{
  s/^```math$/\\f[/
  s/^```$/\\f]/
}

# Folded answers.
s/(<\/?(details|summary)>)/@htmlonly\1@endhtmlonly/g

# Pictures by their names alone; the mark is taken off below.
s/!\[([^][]*)\]\(([^)]*\/)?([^)\/]*\.(svg|png))\)/PICTURE[\1]@(\3)/g

# The path is the parent of the lessons, and the list of pages that of the other pages: the tree has
# them in their order.
s/^\| ([0-9]+) · \[([^]]*)\]\(([0-9a-z_]+)\/README\.md\)/| @subpage md_lessons_\3_README "\1 · \2"/

s/^- \[([^]]*)\]\(([a-z_]+)\.md\)/- @subpage md_lessons_\2 "\1"/
s/^- \[([^]]*)\]\(([a-z_]+)\/README\.md\)/- @subpage md_lessons_\2_README "\1"/

# Words of the glossary, and links to them.
s/<a id="([^"]*)"><\/a>/@anchor glossary_\1 /
s/\]\(([^):]*\/)?glossary\.md#([^)]*)\)/](@ref glossary_\2)/g

# Links: to a header, a reference; to a page of the site, as they are; to anything else, only the
# words. What lies in tests/ is no page of the site.
s/\[`?([^]`[]*)`?\]\(([^)]*src\/[^)]*\/)([a-z_0-9]+\.h)\)/[\1](@ref \3)/g
s/\[([^][]*)\]\((\.\.\/)*tests\/[^):]*\)/\1/g
s/\]\(([^):]*lessons\/[^):]*\.md|\.\.[^):]*\.md|[0-9a-z_]*\.md|[0-9][^):]*\.md)\)/]@(\1)/g
s/\[([^][]*)\]\((\.\.?\/|[a-z])[^):]*\)/\1/g
s/\]@\(/](/g
s/PICTURE(\[[^][]*\])\(/!\1(/g
