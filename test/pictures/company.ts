/** Who they are in `month.ts`: what they have set up, and how they use it. */

/** @param baseUrl of all upstreams, in place of their own. */
const toCatalog = (baseUrl?: string): string => `version: 1
upstreams:
  openai: { dialect: openai, base_url: ${baseUrl ?? 'https://api.openai.com/v1'}, api_key: \${OPENAI_API_KEY} }
  anthropic: { dialect: openai, base_url: ${baseUrl ?? 'https://api.anthropic.com/v1'}, api_key: \${ANTHROPIC_API_KEY} }
  gpu-box: { dialect: openai, base_url: ${baseUrl ?? 'http://127.0.0.1:8000/v1'}, local: true }
models:
  openai/gpt-5: { routes: [{ upstream: openai, model: gpt-5 }] }
  openai/gpt-5-mini: { routes: [{ upstream: openai, model: gpt-5-mini }] }
  anthropic/claude-sonnet-4-5: { routes: [{ upstream: anthropic, model: claude-sonnet-4-5 }] }
  anthropic/claude-haiku-4-5: { routes: [{ upstream: anthropic, model: claude-haiku-4-5 }] }
  meta/llama-3.3-70b:
    name: Llama 3.3 70B
    context_length: 131072
    max_output_length: 16384
    input_modalities: [text]
    output_modalities: [text]
    supported_features: [tools, json_mode]
    routes: [{ upstream: gpu-box, model: llama-3.3-70b-instruct }]
aliases:
  fast: openai/gpt-5-mini
`

export interface ModelPlan {
  slug: string
  upstream: string
  upstreamModel: string
  isLocal: boolean
  firstTokenMs: number
  tokensPerSecond: number
}

const hosted = (vendor: string, name: string, firstTokenMs: number, tokensPerSecond: number): ModelPlan => ({
  ...{ slug: `${vendor}/${name}`, upstream: vendor, upstreamModel: name, isLocal: false },
  ...{ firstTokenMs, tokensPerSecond },
})

const MODELS: readonly ModelPlan[] = [
  hosted('openai', 'gpt-5', 1_400, 70),
  hosted('openai', 'gpt-5-mini', 620, 130),
  hosted('anthropic', 'claude-sonnet-4-5', 980, 75),
  hosted('anthropic', 'claude-haiku-4-5', 480, 150),
  {
    ...{ slug: 'meta/llama-3.3-70b', upstream: 'gpu-box', upstreamModel: 'llama-3.3-70b-instruct', isLocal: true },
    ...{ firstTokenMs: 310, tokensPerSecond: 42 },
  },
]

/** @param budget USD a month. */
const TEAMS: readonly { name: string; budget?: number }[] = [
  { name: 'support', budget: 120 },
  { name: 'engineering', budget: 400 },
  { name: 'marketing', budget: 60 },
]

export interface KeyPlan {
  name: string
  team: string
  budget?: number
  models?: string[]
  /** At the busiest time of a good day. */
  requestsPerHour: number
  /** Whether it asks by night and on Sundays, too. */
  isSteady?: boolean
  /** Which share goes to which model: 1 together. */
  uses: Readonly<Record<string, number>>
  promptTokens: number
  completionTokens: number
  users?: readonly string[]
}

const KEYS: readonly KeyPlan[] = [
  {
    ...{ name: 'support-bot', team: 'support', budget: 100, requestsPerHour: 62, isSteady: true },
    uses: { 'openai/gpt-5-mini': 0.7, 'meta/llama-3.3-70b': 0.2, 'openai/gpt-5': 0.1 },
    ...{ promptTokens: 2_400, completionTokens: 260, users: ['web', 'mobile', 'mail'] },
  },
  {
    ...{ name: 'code-review', team: 'engineering', requestsPerHour: 26 },
    uses: { 'anthropic/claude-sonnet-4-5': 0.8, 'openai/gpt-5': 0.2 },
    ...{ promptTokens: 7_600, completionTokens: 780 },
  },
  {
    ...{ name: 'notebooks', team: 'engineering', budget: 80, requestsPerHour: 14 },
    uses: { 'openai/gpt-5': 0.55, 'anthropic/claude-sonnet-4-5': 0.25, 'meta/llama-3.3-70b': 0.2 },
    ...{ promptTokens: 3_100, completionTokens: 900, users: ['ann', 'ben', 'chloe', 'deniz'] },
  },
  {
    ...{ name: 'search-index', team: 'engineering', models: ['meta/*'], requestsPerHour: 34, isSteady: true },
    uses: { 'meta/llama-3.3-70b': 1 },
    ...{ promptTokens: 1_500, completionTokens: 120 },
  },
  {
    ...{ name: 'newsletter', team: 'marketing', budget: 30, requestsPerHour: 8 },
    uses: { 'openai/gpt-5': 0.6, 'anthropic/claude-haiku-4-5': 0.4 },
    ...{ promptTokens: 1_900, completionTokens: 1_300 },
  },
  {
    ...{ name: 'translations', team: 'marketing', requestsPerHour: 22 },
    uses: { 'anthropic/claude-haiku-4-5': 0.75, 'openai/gpt-5-mini': 0.25 },
    ...{ promptTokens: 1_100, completionTokens: 900 },
  },
  {
    ...{ name: 'meeting-notes', team: 'support', requestsPerHour: 5 },
    uses: { 'openai/gpt-5': 1 },
    ...{ promptTokens: 9_800, completionTokens: 620, users: ['ann', 'farid', 'grace'] },
  },
]

export interface Company {
  /** As a catalog file. */
  catalog: string
  models: readonly ModelPlan[]
  teams: typeof TEAMS
  keys: readonly KeyPlan[]
  nameOf(name: string): string
}

/** @param names of keys, teams, users, and models that have others here. */
export function toCompany(names: Readonly<Record<string, string>>, baseUrl?: string): Company {
  const renamed = (text: string, toPlace: (name: string) => string) =>
    Object.entries(names).reduce((all, [from, to]) => all.replaceAll(toPlace(from), toPlace(to)), text)
  const rename = <Part>(part: Part): Part => JSON.parse(renamed(JSON.stringify(part), (name) => `"${name}"`))
  return {
    catalog: renamed(toCatalog(baseUrl), (name) => `  ${name}:\n`),
    ...rename({ models: MODELS, teams: TEAMS, keys: KEYS }),
    nameOf: (name) => names[name] ?? name,
  }
}
