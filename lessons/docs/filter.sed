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
s/!\[([^][]*)\]\(([^)]*\/)?([^)\/]*\.svg)\)/@PICTURE@[\1]@(\3)/g

# Links: to a header, a reference; to a page, as they are; to anything else, only the words.
s/\[`?([^]`[]*)`?\]\(([^)]*\/)?([a-z_0-9]+\.h)\)/[\1](@ref \3)/g
s/\[([^][]*)\]\((\.\.?\/|[a-z])[^):]*\/?[^).:]*\)([^A-Za-z]|$)/\1\3/g
s/@PICTURE@(\[[^][]*\])@\(/!\1(/g
