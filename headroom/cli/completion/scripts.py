"""Scripts for shells: they ask `kubectl-headroom __complete WORDS…` what can stand next, and show it.

It answers one candidate a line, with a tab and a description after it where there is one, and in the last line a colon
and a number, as kubectl does: 4 leaves files alone, 0 lets the shell offer files.
"""

from typing import Final

_BASH: Final = """\
# bash completion of kubectl-headroom; for `kubectl headroom`, kubectl runs kubectl_complete-headroom by itself.
_kubectl_headroom() {
  local line directive="" candidates=()
  while IFS='' read -r line; do
    if [[ "$line" == :* ]]; then directive="${line#:}"; else candidates+=("${line%%$'\\t'*}"); fi
  done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  COMPREPLY=()
  for line in "${candidates[@]}"; do
    [[ "$line" == "${COMP_WORDS[COMP_CWORD]}"* ]] && COMPREPLY+=("$line")
  done
  if [[ "$directive" != 4 && ${#COMPREPLY[@]} -eq 0 ]]; then
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
  fi
}
complete -F _kubectl_headroom kubectl-headroom
"""
_ZSH: Final = """\
#compdef kubectl-headroom
# zsh completion of kubectl-headroom; for `kubectl headroom`, kubectl runs kubectl_complete-headroom by itself.
_kubectl_headroom() {
  local line directive="" tab=$'\\t'
  local -a candidates
  while IFS='' read -r line; do
    if [[ "$line" == :* ]]; then
      directive="${line#:}"
    else
      line="${line//:/\\\\:}"
      candidates+=("${line/$tab/:}")
    fi
  done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#candidates} )); then _describe 'kubectl headroom' candidates; fi
  if [[ "$directive" != 4 ]]; then _files; fi
}
compdef _kubectl_headroom kubectl-headroom
"""
_FISH: Final = """\
# fish completion of kubectl-headroom; for `kubectl headroom`, kubectl runs kubectl_complete-headroom by itself.
function __kubectl_headroom
  set -l words (commandline -opc)
  set -l answer ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
  for line in $answer
    if not string match -q ':*' -- $line
      echo $line
    else if test "$line" != ':4'
      __fish_complete_path (commandline -ct)
    end
  end
end
complete -c kubectl-headroom -f -a '(__kubectl_headroom)'
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def of(shell: str) -> str:
    return _SCRIPTS[shell]
