"""The grammar of query texts, for lark. Words of the language are not case-sensitive."""

GRAMMAR = r"""
start: select ";"?

select: SELECT output "from"i source ("," source)* where? group? having?

?output: streamed | listed
streamed: emit "(" listed ")"
emit: ISTREAM | DSTREAM
listed: DISTINCT? item ("," item)*
item: "*" -> everything
    | NAME "." "*" -> everything_of
    | sum ("as"i NAME)? -> valued

source: NAME window? ("as"i NAME)? -> stream
      | "(" NAME window? ")" window? ("as"i NAME)? -> stream
      | "(" select ")" window? "as"i NAME -> block

window: "[" "range"i LENGTH "]" -> range
      | "[" "range"i? UNBOUNDED "]" -> unbounded
      | "[" "rows"i COUNT "]" -> rows
      | "[" NOW "]" -> now
      | "[" "partition"i "by"i NAME ("," NAME)* "rows"i COUNT "]" -> partition

where: "where"i condition
group: "group"i "by"i column ("," column)*
having: "having"i condition

?condition: conjunction | conjunction ("or"i conjunction)+ -> or_
?conjunction: negation | negation ("and"i negation)+ -> and_
?negation: test | "not"i negation -> not_
?test: sum
     | sum COMPARISON sum -> compare
     | sum "is"i "null"i -> is_null
     | sum "is"i "not"i "null"i -> is_not_null
     | sum "in"i "(" literal ("," literal)* ")" -> in_
     | sum "not"i "in"i "(" literal ("," literal)* ")" -> not_in
     | sum "between"i sum "and"i sum -> between

?sum: product | product (SUM_SIGN product)+ -> chain
?product: unary | unary (PRODUCT_SIGN unary)+ -> chain
?unary: atom | "-" unary -> neg
?atom: literal
     | aggregate
     | column
     | "(" condition ")"

aggregate: NAME "(" "*" ")" -> count_all
         | NAME "(" DISTINCT? sum ")" -> call
column: NAME | NAME "." NAME -> column_of

literal: NUMBER -> number
       | STRING -> text
       | "true"i -> true
       | "false"i -> false
       | "null"i -> null

SELECT.2: /select\b/i
ISTREAM.3: /istream(?=\s*\()/i
DSTREAM.3: /dstream(?=\s*\()/i
DISTINCT.3: /distinct\b/i
UNBOUNDED.3: /unbounded\b/i
NOW.3: /now\b/i
SUM_SIGN: "+" | "-"
PRODUCT_SIGN: "*" | "/" | "%"
COMPARISON: "=" | "!=" | "<>" | "<=" | ">=" | "<" | ">"
LENGTH.2: /\d[\d_,.]*(\s*[a-zµ]+(\s*\d[\d_.]*\s*[a-zµ]+)*)?/i
COUNT.1: /\d{1,3}(,\d{3})+|\d+/
NUMBER: /\d+(\.\d+)?([eE][+-]?\d+)?/
STRING: /'([^']|'')*'/
NAME: /[a-z_]\w*|"[^"]+"/i

COMMENT: /--[^\n]*/
%import common.WS
%ignore WS
%ignore COMMENT
"""
