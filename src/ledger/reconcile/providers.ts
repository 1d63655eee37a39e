/**
 * The usage and cost APIs of providers, as documented on 2026-11-28:
 * https://platform.openai.com/docs/api-reference/usage, https://platform.claude.com/docs/en/api/admin/usage_report/retrieve_messages,
 * https://platform.claude.com/docs/en/api/admin/cost_report, https://openrouter.ai/docs/api-reference/analytics/get-activity.
 */
import { asObject, type JsonObject } from '../../domain/json.ts'
import { toDateMs, toDay } from '../../domain/time.ts'
import { type BillFormat, type BillPart, type Place, requireUsd, toAtto, toFigures, toText, unusable } from './bill.ts'

export const PROVIDERS = ['openai', 'anthropic', 'openrouter'] as const
export type ProviderName = (typeof PROVIDERS)[number]

/** One list of an API, without its page. */
export interface BillRequest {
  part: BillPart
  path: string
  query: URLSearchParams
}

export interface Provider extends BillFormat {
  title: string
  /** Host of this provider's upstreams. */
  host: string
  baseUrl: string
  /** Variable with the administrator's credential, which can read the whole organization. */
  variable: string
  headers(credential: string): Record<string, string>
  requests(fromMs: number, untilMs: number): BillRequest[]
}

const bearer = (credential: string) => ({ authorization: `Bearer ${credential}` })

const toQuery = (fields: Record<string, string | number>, groups: readonly string[]) => {
  const query = new URLSearchParams(
    Object.entries(fields).map(([name, value]): [string, string] => [name, String(value)]),
  )
  for (const group of groups) query.append('group_by[]', group)
  return query
}

const SERVED = new Set(['organization.usage.completions.result', 'organization.usage.embeddings.result'])

/** `priority | gpt-5-2026-01-02, output, long context`; `gpt-audio-2026-01-02 audio, input`; null for tools and storage. */
function toBilledModel(lineItem: string | null): string | null {
  const [, model] = /^(?:[\w ]+ \| )?(\S+)(?: (?:text|audio|image))?, /.exec(lineItem ?? '') ?? []
  return model ?? null
}

const OPENAI: Provider = {
  title: 'OpenAI',
  host: 'api.openai.com',
  baseUrl: 'https://api.openai.com',
  variable: 'OPENAI_ADMIN_KEY',
  headers: bearer,
  requests(fromMs, untilMs) {
    const span = { start_time: fromMs / 1_000, end_time: untilMs / 1_000, bucket_width: '1d' }
    const usage = (of: string): BillRequest => ({
      part: 'usage',
      path: `/v1/organization/usage/${of}`,
      query: toQuery({ ...span, limit: 31 }, ['model', 'api_key_id']),
    })
    const costs = toQuery({ ...span, limit: 180 }, ['line_item', 'api_key_id'])
    return [usage('completions'), usage('embeddings'), { part: 'costs', path: '/v1/organization/costs', query: costs }]
  },
  matches: ({ start_time: start, results }) => start !== undefined && results !== undefined,
  span: ({ start_time: start, end_time: end }, place) => ({
    startMs: toUnixMs(start, 'start_time', place),
    endMs: toUnixMs(end, 'end_time', place),
  }),
  read(line, place) {
    const keyId = toText(line.api_key_id, 'api_key_id', place)
    if (line.object === 'organization.costs.result') {
      const amount = asObject(line.amount)
      requireUsd(amount?.currency, place)
      const model = toBilledModel(toText(line.line_item, 'line_item', place))
      return [{ part: 'costs', model, keyId, atto: toAtto(amount?.value, 0, 'amount.value', place) }]
    }
    if (!SERVED.has(String(line.object))) {
      if (String(line.object).startsWith('organization.usage.')) return null
      throw unusable(`${place.file}: ${place.path} has no known \`object\`.`)
    }
    const figures = toFigures(
      {
        requests: [line.num_model_requests, 'num_model_requests'],
        input: [line.input_tokens, 'input_tokens'],
        cached: [line.input_cached_tokens, 'input_cached_tokens'],
        cache_write: [line.input_cache_write_tokens, 'input_cache_write_tokens'],
        audio_input: [line.input_audio_tokens, 'input_audio_tokens'],
        output: [line.output_tokens, 'output_tokens'],
        audio_output: [line.output_audio_tokens, 'output_audio_tokens'],
      },
      place,
    )
    return [{ part: 'usage', model: toText(line.model, 'model', place), keyId, figures }]
  },
}

function toUnixMs(value: unknown, field: string, { file, path }: Place): number {
  const ms = Number(value) * 1_000
  if (typeof value === 'number' && Number.isSafeInteger(ms) && ms >= 0 && ms < MAX_MS) return ms
  throw unusable(`${file}: ${path} has \`${field}\` that must be a time in Unix seconds.`)
}

const MAX_MS = 8.64e15

function toIsoMs(value: unknown, field: string, { file, path }: Place): number {
  const ms = typeof value === 'string' ? toDateMs(value) : null
  if (ms !== null) return ms
  throw unusable(`${file}: ${path} has \`${field}\` that must be a time such as 2027-01-31T00:00:00Z.`)
}

const ANTHROPIC: Provider = {
  title: 'Anthropic',
  host: 'api.anthropic.com',
  baseUrl: 'https://api.anthropic.com',
  variable: 'ANTHROPIC_ADMIN_KEY',
  headers: (credential) => ({ 'x-api-key': credential, 'anthropic-version': '2023-06-01' }),
  requests(fromMs, untilMs) {
    const span = { starting_at: `${toDay(fromMs)}T00:00:00Z`, ending_at: `${toDay(untilMs)}T00:00:00Z`, limit: 31 }
    const of = (part: BillPart, name: string, groups: readonly string[]): BillRequest => ({
      part,
      path: `/v1/organizations/${name}`,
      query: toQuery({ ...span, bucket_width: '1d' }, groups),
    })
    return [of('usage', 'usage_report/messages', ['model', 'api_key_id']), of('costs', 'cost_report', ['description'])]
  },
  matches: ({ starting_at: start, results }) => start !== undefined && results !== undefined,
  span: ({ starting_at: start, ending_at: end }, place) => ({
    startMs: toIsoMs(start, 'starting_at', place),
    endMs: toIsoMs(end, 'ending_at', place),
  }),
  read(line, place) {
    const model = toText(line.model, 'model', place)
    const keyId = toText(line.api_key_id, 'api_key_id', place)
    if ('amount' in line) {
      requireUsd(line.currency, place)
      return [{ part: 'costs', model, keyId, atto: toAtto(line.amount, 2, 'amount', place) }]
    }
    const written = asObject(line.cache_creation)
    const parts = toFigures(
      {
        input: [line.uncached_input_tokens, 'uncached_input_tokens'],
        cached: [line.cache_read_input_tokens, 'cache_read_input_tokens'],
        cache_write: [written?.ephemeral_5m_input_tokens, 'ephemeral_5m_input_tokens'],
        cache_write_1h: [written?.ephemeral_1h_input_tokens, 'ephemeral_1h_input_tokens'],
        output: [line.output_tokens, 'output_tokens'],
        web_searches: [asObject(line.server_tool_use)?.web_search_requests, 'web_search_requests'],
      },
      place,
    )
    const { input, cached = 0, cache_write: short = 0, cache_write_1h: long = 0 } = parts
    if (input === undefined || parts.output === undefined)
      throw unusable(
        `${place.file}: ${place.path} has neither an amount nor \`uncached_input_tokens\` and \`output_tokens\`.`,
      )
    const figures = { ...parts, input: input + cached + short + long, cache_write: short + long }
    return [{ part: 'usage', model, keyId, figures }]
  },
}

const OPENROUTER: Provider = {
  title: 'OpenRouter',
  host: 'openrouter.ai',
  baseUrl: 'https://openrouter.ai',
  variable: 'OPENROUTER_MANAGEMENT_KEY',
  headers: bearer,
  // Returns the last 30 complete days, without pages.
  requests: () => [{ part: 'usage', path: '/api/v1/activity', query: new URLSearchParams() }],
  matches: ({ date, requests }) => date !== undefined && requests !== undefined,
  span: null,
  read(line, place) {
    const of = { model: toText(line.model, 'model', place), keyId: null }
    const figures = toFigures(
      {
        requests: [line.requests, 'requests'],
        input: [line.prompt_tokens, 'prompt_tokens'],
        output: [line.completion_tokens, 'completion_tokens'],
        reasoning: [line.reasoning_tokens, 'reasoning_tokens'],
      },
      place,
    )
    return [
      { ...of, part: 'usage', figures },
      { ...of, part: 'costs', atto: toAtto(line.usage, 0, 'usage', place) },
    ]
  },
}

export const providers: Record<ProviderName, Provider> = {
  openai: OPENAI,
  anthropic: ANTHROPIC,
  openrouter: OPENROUTER,
}

/** By the first item; null if no page has any. */
export function findProvider(pages: readonly JsonObject[]): ProviderName | null {
  for (const { data } of pages) {
    const item = asObject((data as unknown[])[0])
    if (item) return PROVIDERS.find((name) => providers[name].matches(item)) ?? null
  }
  return null
}
