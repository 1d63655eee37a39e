/** What stands below the help of each command: two lines to copy. By the command's words, without the program's name. */
import type { Command } from 'commander'

export const EXAMPLES: Readonly<Record<string, readonly [string, string]>> = {
  serve: [
    'serve ./gemma-3-4b-it-Q4_K_M.gguf',
    'serve --host 0.0.0.0 --port 80 --data /var/lib/tollgate --catalog /etc/tollgate.yaml',
  ],
  ask: ['ask "What is a ledger?"', 'ask --model openai/gpt-4o-mini "Summarise this" < notes.txt'],
  launch: [
    'launch claude --model anthropic/claude-sonnet-4-5 --budget 5/day',
    'launch codex --model openai/gpt-5 -- exec "Fix the failing test"',
  ],
  'keys create': [
    'keys create --name dev',
    "keys create --name batch --model 'openai/*' --rpm 60 --budget 20/month --expires 90d",
  ],
  'keys show': ['keys show dev', 'keys show 4f9a21c8 --json'],
  'keys edit': ['keys edit dev --budget 50/month --rpm none', 'keys edit 4f9a21c8 --name ci --team research'],
  'keys list': ['keys list', 'keys list --all --json'],
  'keys rotate': ['keys rotate dev', 'keys rotate dev --overlap 0'],
  'keys revoke': ['keys revoke dev', 'keys revoke 4f9a21c8'],
  'teams create': [
    'teams create --name research',
    "teams create --name research --budget 200/month --rpm 600 --model 'openai/*'",
  ],
  'teams show': ['teams show research', 'teams show 4f9a21c8 --json'],
  'teams edit': ['teams edit research --budget 300/month --rpm none', 'teams edit 4f9a21c8 --name lab --scope local'],
  'teams list': ['teams list', 'teams list --json'],
  'catalog validate': ['catalog validate', 'catalog validate new.yaml'],
  'catalog apply': ['catalog apply', 'catalog apply new.yaml --prune'],
  'catalog plan': ['catalog plan', 'catalog plan new.yaml --prune --check'],
  'catalog refresh': ['catalog refresh', 'catalog refresh api.json --plan'],
  'catalog export': ['catalog export new.yaml', 'catalog export --json'],
  'catalog history': ['catalog history', 'catalog history 12'],
  'catalog revert': ['catalog revert 12 --plan', 'catalog revert 12'],
  'models list': ['models list', "models list 'openai/*' --all"],
  'models show': ['models show tollgate/demo', 'models show openai/gpt-4o-mini --json'],
  'models add': [
    'models add ./gemma-3-4b-it-Q4_K_M.gguf',
    'models add /models/gemma --name local/gemma --context 8192 --slots 4',
  ],
  'models remove': ['models remove local/gemma', 'models remove local/gemma --plan'],
  'engines install': [
    'engines install --from llama-bin-ubuntu-x64.tar.gz --sha256 4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865',
    'engines install --json --from llama-bin-ubuntu-vulkan-x64.tar.gz --sha256 9355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865',
  ],
  'engines list': ['engines list', 'engines list --json'],
  'upstreams add': [
    'upstreams add openai',
    "upstreams add openrouter --models 'deepseek/*' --key-env OPENROUTER_API_KEY --yes",
  ],
  'upstreams discover': ['upstreams discover', 'upstreams discover --enable'],
  'upstreams list': ['upstreams list', 'upstreams list --json'],
  'upstreams edit': ['upstreams edit openai --key', "upstreams edit openai --models 'gpt-5*'"],
  'upstreams remove': ['upstreams remove openai --plan', 'upstreams remove openai'],
  'upstreams test': ['upstreams test', 'upstreams test openai --call'],
  'upstreams start': ['upstreams start gemma', 'upstreams start gemma --json'],
  'upstreams stop': ['upstreams stop gemma', 'upstreams stop gemma --now'],
  'upstreams logs': ['upstreams logs gemma', 'upstreams logs gemma --lines 1000'],
  'requests list': ['requests list --errors --since 24h', "requests list --key dev --model 'openai/*' --limit 20"],
  'requests tail': ['requests tail', 'requests tail --errors --json'],
  'requests show': ['requests show 3e1da544', 'requests show req_0192f3a1c5d27e8b9a4f6d1c2b3a4e5f --json'],
  usage: ['usage --since 30d', 'usage --by day,model --since 2026-11-01 --until 2026-12-01 --csv > november.csv'],
  audit: ['audit', 'audit --json'],
  'audit log': ['audit log --since 7d', 'audit log --subject dev --action keys --json'],
  'admin code': ['admin code', 'admin code --data /var/lib/tollgate'],
  'admin list': ['admin list', 'admin list --json'],
  'admin create': ['admin create ann@example.com --role editor', 'admin create bob --role member --team research'],
  'admin edit': ['admin edit ann@example.com --role owner', 'admin edit bob --disable'],
  'admin reset': ['admin reset ann@example.com', 'admin reset bob --json'],
  'admin token create': ['admin token create grafana', 'admin token create deploy --scope write --expires 90d'],
  'admin token list': ['admin token list', 'admin token list --json'],
  'admin token revoke': ['admin token revoke grafana', 'admin token revoke deploy --json'],
  compact: ['compact', 'compact --data /var/lib/tollgate'],
  backup: ['backup /mnt/backups/today.sqlite', 'backup today.sqlite --force --data /var/lib/tollgate'],
  'secret rotate': ['secret rotate', 'secret rotate --yes --data /var/lib/tollgate'],
  restore: ['restore /mnt/backups/today.sqlite', 'restore tollgate_data/backups/replaced-…/tollgate.db --as-it-was'],
  doctor: ['doctor', 'doctor --data /var/lib/tollgate'],
  completions: [
    'completions bash > ~/.local/share/bash-completion/completions/tollgate',
    'completions fish > ~/.config/fish/completions/tollgate.fish',
  ],
  version: ['version', 'version --json'],
}

/** Puts them below the help of every command of the program. */
export function addExamples(program: Command, words = ''): void {
  for (const command of program.commands) {
    const name = words === '' ? command.name() : `${words} ${command.name()}`
    const lines = EXAMPLES[name]
    if (lines) command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  tollgate ${line}\n`).join('')}`)
    addExamples(command, name)
  }
}
