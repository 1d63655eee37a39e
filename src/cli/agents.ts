/**
 * How each agent is told of a gateway: by variables of its environment, or by settings on its command line. Pure.
 *
 * Sources: https://code.claude.com/docs/en/llm-gateway, https://code.claude.com/docs/en/env-vars,
 * https://github.com/openai/codex/blob/main/docs/config.md,
 * https://aider.chat/docs/llms/openai-compat.html, https://llm.datasette.io/en/stable/other-models.html
 */

export const AGENTS = ['claude', 'codex', 'aider', 'llm'] as const
export type AgentName = (typeof AGENTS)[number]

/** What an agent is to work with. */
export interface Gateway {
  /** Ends in `/v1`. */
  base: string
  key: string
  /** A slug or an alias. */
  model: string
  contextLength: number
  /** A folder that is its own. */
  folder: string
}

/** How it is started. */
export interface Launch {
  command: AgentName
  args: string[]
  environment: Record<string, string>
  /** Variables that would send it elsewhere, or with another key. */
  without: string[]
  /** What has to stand in its folder, by name. */
  files: Record<string, string>
}

/** How it gets onto a machine. */
export const INSTALL: Readonly<Record<AgentName, string>> = {
  claude: 'npm install -g @anthropic-ai/claude-code',
  codex: 'npm install -g @openai/codex',
  aider: 'python -m pip install aider-install && aider-install',
  llm: 'pipx install llm',
}

/** In which variable Codex finds its key. */
const CODEX_KEY = 'TOLLGATE_API_KEY'

/** With any of these Claude Code asks somebody else, or with another key or model. */
const ELSEWHERE = [
  ...['ANTHROPIC_API_KEY', 'ANTHROPIC_SMALL_FAST_MODEL', 'ANTHROPIC_UNIX_SOCKET'],
  ...['ANTHROPIC_AWS', 'BEDROCK', 'FOUNDRY', 'GATEWAY', 'MANTLE', 'VERTEX'].map((name) => `CLAUDE_CODE_USE_${name}`),
]

export function toLaunch(agent: AgentName, gateway: Gateway): Launch {
  const { base, key, model, contextLength, folder } = gateway
  const launch: Launch = { command: agent, args: [], environment: {}, without: [], files: {} }
  switch (agent) {
    case 'claude':
      launch.environment = {
        // It adds /v1 itself.
        ANTHROPIC_BASE_URL: base.replace(/\/v1$/, ''),
        ANTHROPIC_AUTH_TOKEN: key,
        ANTHROPIC_MODEL: model,
        // What it does beside the conversation, it does with a model of another name otherwise.
        ANTHROPIC_DEFAULT_FABLE_MODEL: model,
        ANTHROPIC_DEFAULT_OPUS_MODEL: model,
        ANTHROPIC_DEFAULT_SONNET_MODEL: model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
        CLAUDE_CODE_SUBAGENT_MODEL: model,
        // It takes any model that it does not know for one of 200,000 tokens.
        CLAUDE_CODE_AUTO_COMPACT_WINDOW: String(contextLength),
      }
      launch.without = ELSEWHERE
      return launch
    case 'codex':
      launch.environment = { [CODEX_KEY]: key }
      launch.args = Object.entries({
        model,
        model_context_window: contextLength,
        model_provider: 'tollgate',
        'model_providers.tollgate.name': 'Tollgate',
        'model_providers.tollgate.base_url': base,
        'model_providers.tollgate.env_key': CODEX_KEY,
        'model_providers.tollgate.wire_api': 'responses',
      }).flatMap(([name, value]) => ['-c', `${name}=${JSON.stringify(value)}`])
      return launch
    case 'aider':
      launch.environment = { OPENAI_API_BASE: base, OPENAI_API_KEY: key }
      // By what stands before the first slash it chooses the format alone.
      launch.args = ['--model', `openai/${model}`]
      return launch
    case 'llm':
      launch.environment = { LLM_USER_PATH: folder, LLM_MODEL: model, OPENAI_API_KEY: key }
      // JSON is YAML. Without the name of a key it sends none; that one it finds in the variable.
      launch.files = {
        'extra-openai-models.yaml': `${JSON.stringify([
          {
            ...{ model_id: model, model_name: model, api_base: base, api_key_name: 'openai' },
            ...{ supports_tools: true, supports_schema: true },
          },
        ])}\n`,
      }
      return launch
  }
}

/** The same for a shell: lines that set the variables, and the command. */
export function toShell({ command, args, environment, without }: Launch): string {
  const lines = without.map((name) => `unset ${name}\n`)
  for (const [name, value] of Object.entries(environment)) lines.push(`export ${name}=${quoted(value)}\n`)
  return `${lines.join('')}${[command, ...args].map(quoted).join(' ')}\n`
}

const quoted = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)
