/**
 * Coding agents started against this gateway, as commands of a shell. Each was run as it stands; `tollgate launch` does the same. Pure.
 *
 * Sources: https://code.claude.com/docs/en/llm-gateway, https://github.com/openai/codex/blob/main/docs/config.md
 */
import { quote } from './literal.ts'

interface Access {
  /** Ends in `/v1`. */
  baseUrl: string
  secret: string
  model: string
}

/** It adds /v1 itself, and does small things beside the conversation with a model of another name unless it is told one. */
export const toClaudeCode = ({ baseUrl, secret, model }: Access): string =>
  [
    '# npm install -g @anthropic-ai/claude-code',
    `ANTHROPIC_BASE_URL=${baseUrl.replace(/\/v1$/, '')} \\`,
    `ANTHROPIC_AUTH_TOKEN=${secret} \\`,
    `ANTHROPIC_MODEL=${quote(model)} \\`,
    `ANTHROPIC_DEFAULT_HAIKU_MODEL=${quote(model)} \\`,
    'claude',
  ].join('\n')

export function toCodex({ baseUrl, secret, model }: Access): string {
  const provider = `{name="Tollgate",base_url="${baseUrl}",env_key="TOLLGATE_API_KEY",wire_api="responses"}`
  return [
    '# npm install -g @openai/codex',
    `TOLLGATE_API_KEY=${secret} \\`,
    `codex -m ${quote(model)} -c model_provider=tollgate \\`,
    `  -c ${quote(`model_providers.tollgate=${provider}`)}`,
  ].join('\n')
}
