/**
 * What every provider format says of itself, one row each: whoever routes, plans, bills or checks asks this table, and compares no
 * dialect's name. Data and small functions alone: the code of a format is loaded with its first call.
 */

import {
  type DialectName,
  type PassthroughEndpoint,
  type UpstreamOptions,
  type UpstreamSettings,
  USUAL_DIALECT,
} from '../../domain/dialects.ts'
import type { JsonObject } from '../../domain/json.ts'
import { mapLimits } from '../../domain/limits.ts'
import type { Feature, RouteSettings } from '../../domain/models.ts'
import type { Upstream } from '../../domain/snapshot.ts'
import { isServiceAccount } from '../auth.ts'
import { type Held, toHeld } from './anthropic/schema.ts'
import type { WireFormat } from './dialect.ts'

export interface Dialect {
  /** Loads the code of the format; null for the model that is built in, which nobody calls over a network. */
  readonly load: (() => Promise<WireFormat>) | null
  /** What an address of its upstreams looks like; '' where they have none. */
  readonly exampleUrl: string
  /** Where its API is on a server that Tollgate starts, below the host; '' for the root. */
  readonly localPath: '' | `/${string}`
  /** What holds for its upstreams where the catalog says nothing. */
  readonly defaults: Readonly<Record<'remote' | 'local', UpstreamOptions>>
  /** Formats of clients that its upstreams may speak themselves: such a request goes on as it came. */
  readonly passthrough: readonly PassthroughEndpoint[]
  /** Who gives leave for each request, where the headers that are always the same do not; null for nobody. */
  authority(upstream: Pick<Upstream, 'credential' | 'options'>): AuthorityName | null
  readonly output: StructuredOutput
  /** What its upstreams make embeddings of. */
  readonly embeds: 'texts and tokens' | 'texts' | 'nothing'
  /** Whether a tier that a client asks for is sent on as it is meant, and read back: of requests that are translated, or that pass. */
  readonly tellsMode: Readonly<Record<'translated' | 'native', boolean>>
  /** How it says that it has searched the web: by a count, or, translated, by what it cites alone. */
  readonly searches: 'counted' | 'cited'
  /** Whether it says how long what was written to a cache is kept. */
  readonly tellsCacheLifetime: boolean
  /** Whether its models are asked to think in several ways, so that a route has to say in which. */
  readonly hasWaysToThink: boolean
}

/** Who may give leave for single requests, by signing them or by tokens that end. */
export type AuthorityName = 'google'

/** What decides how a model is asked. */
export interface Thinks {
  features: readonly Feature[]
  options: RouteSettings
}

/** How its upstreams hold a model to what `response_format` asks for. */
export interface StructuredOutput {
  /** Whether they have a mode for any JSON object. */
  readonly hasJsonMode: boolean
  /** How much of a schema they hold a model to; null where they take any. */
  readonly heldOf: ((schema: JsonObject) => Held) | null
  /** Whether those of one's own are engines that write by a grammar made of any schema, whatever their model. */
  readonly hasLocalGrammars: boolean
  /** Whether a target takes a format beside tools, or a search, whether or not the model may call them. */
  takesBesideTools(target: Thinks): boolean
}

export const DEFAULT_OPTIONS: UpstreamOptions = {
  max_tokens_field: null,
  n: true,
  user: true,
  think_tags: false,
  passthrough: [],
  pass: [],
  max_tokens_per_second: 400,
  embedding_inputs: 2_048,
}

/** Local inference servers know the older name, write one choice, or count one, and leave thinking in the text. */
const LOCAL_OPTIONS: UpstreamOptions = {
  ...DEFAULT_OPTIONS,
  max_tokens_field: 'max_tokens',
  n: false,
  think_tags: true,
}

/** Upstreams of vendors' own formats write one choice a call. */
export const OWN_FORMAT_OPTIONS: UpstreamOptions = { ...DEFAULT_OPTIONS, n: false }

/** Those that speak the Messages API speak that of its clients. */
const MESSAGES_OPTIONS: UpstreamOptions = { ...OWN_FORMAT_OPTIONS, passthrough: ['messages'] }

/** Google refuses more in one call (`BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch`). */
const GEMINI_OPTIONS: UpstreamOptions = { ...OWN_FORMAT_OPTIONS, embedding_inputs: 100 }

const toBoth = (options: UpstreamOptions): Dialect['defaults'] => ({ remote: options, local: options })

/** Any schema, any JSON, beside anything. */
const ANY_OUTPUT: StructuredOutput = {
  hasJsonMode: true,
  heldOf: null,
  hasLocalGrammars: false,
  takesBesideTools: () => true,
}

/** Google serves its own models, and others', for service accounts. */
const byAccount: Dialect['authority'] = (upstream) => (isServiceAccount(upstream) ? 'google' : null)
const byCredential: Dialect['authority'] = () => null

/**
 * Whether a target is of Gemini 3 or later, by what its route says and not by its name, which may be any: those are told how much to
 * think by a level, earlier ones by a number of tokens, or they do not think. Earlier ones know no pictures in results, and refuse JSON
 * beside tools ("Function calling with a response mime type: 'application/json' is unsupported") and a search beside functions; later ones
 * refuse calls of the current turn without a signature (ai.google.dev/gemini-api/docs/gemini-3).
 */
export const isSinceGemini3 = ({ features, options: { thinking } }: Thinks): boolean =>
  features.includes('reasoning') && thinking !== 'none' && thinking !== 'budget'

const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  openai: {
    load: async () => (await import('./openai/openai.ts')).openai,
    exampleUrl: 'https://api.openai.com/v1',
    localPath: '/v1',
    defaults: { remote: DEFAULT_OPTIONS, local: LOCAL_OPTIONS },
    passthrough: ['responses', 'completions'],
    authority: byAccount,
    // llama-server, vLLM and LM Studio do.
    output: { ...ANY_OUTPUT, hasLocalGrammars: true },
    embeds: 'texts and tokens',
    tellsMode: { translated: true, native: true },
    searches: 'cited',
    tellsCacheLifetime: false,
    hasWaysToThink: false,
  },
  anthropic: {
    load: async () => (await import('./anthropic/anthropic.ts')).anthropic,
    exampleUrl: 'https://api.anthropic.com',
    localPath: '',
    defaults: toBoth(MESSAGES_OPTIONS),
    passthrough: ['messages'],
    authority: byAccount,
    output: { ...ANY_OUTPUT, hasJsonMode: false, heldOf: toHeld },
    embeds: 'nothing',
    tellsMode: { translated: false, native: true },
    searches: 'counted',
    tellsCacheLifetime: true,
    hasWaysToThink: true,
  },
  gemini: {
    load: async () => (await import('./gemini/gemini.ts')).gemini,
    exampleUrl: 'https://generativelanguage.googleapis.com/v1beta',
    localPath: '/v1beta',
    defaults: toBoth(GEMINI_OPTIONS),
    passthrough: [],
    authority: byAccount,
    output: { ...ANY_OUTPUT, takesBesideTools: isSinceGemini3 },
    embeds: 'texts',
    tellsMode: { translated: true, native: false },
    searches: 'counted',
    tellsCacheLifetime: false,
    hasWaysToThink: true,
  },
  ollama: {
    load: async () => (await import('./ollama/ollama.ts')).ollama,
    exampleUrl: 'http://127.0.0.1:11434',
    localPath: '',
    defaults: toBoth(OWN_FORMAT_OPTIONS),
    passthrough: [],
    authority: byCredential,
    output: { ...ANY_OUTPUT, hasLocalGrammars: true },
    embeds: 'texts',
    tellsMode: { translated: false, native: false },
    searches: 'counted',
    tellsCacheLifetime: false,
    hasWaysToThink: false,
  },
  // It is built in: it needs no allowances.
  demo: {
    load: null,
    exampleUrl: '',
    localPath: '',
    defaults: toBoth(DEFAULT_OPTIONS),
    passthrough: [],
    authority: byCredential,
    output: ANY_OUTPUT,
    embeds: 'texts and tokens',
    tellsMode: { translated: false, native: false },
    searches: 'counted',
    tellsCacheLifetime: false,
    hasWaysToThink: false,
  },
}

/** That of an upstream. One whose format a newer version has written is not ready and never called: any row does for it. */
export const dialectOf = ({ dialect }: { dialect: DialectName }): Dialect =>
  DIALECTS[dialect] ?? DIALECTS[USUAL_DIALECT]

/** That of a name which may be anything. */
export const findDialect = (name: unknown): Dialect | undefined =>
  Object.entries(DIALECTS).find(([known]) => known === name)?.[1]

/** Makes something for each of them. */
export const forEachDialect = <T>(make: (dialect: Dialect) => T) =>
  Object.fromEntries(Object.entries(DIALECTS).map(([name, dialect]) => [name, make(dialect)])) as Record<DialectName, T>

/** Which dialects have a setting. */
export type Has = Readonly<Record<DialectName, boolean>>

const EVERY: Has = { openai: true, anthropic: true, gemini: true, ollama: true, demo: true }
const OVER_HTTP: Has = { ...EVERY, demo: false }
const BUILT_IN: Has = { openai: false, anthropic: false, gemini: false, ollama: false, demo: true }
const OPENAI: Has = { ...BUILT_IN, openai: true, demo: false }
const ANTHROPIC: Has = { ...BUILT_IN, anthropic: true, demo: false }
const BOTH: Has = { ...OPENAI, anthropic: true }
const EMBEDDING: Has = { ...EVERY, anthropic: false }

/** Which dialects have which settings of an upstream. One that has an address needs it. */
export const SETTINGS: Readonly<Record<'base_url' | 'api_key' | keyof UpstreamSettings, Has>> = {
  base_url: OVER_HTTP,
  api_key: OVER_HTTP,
  max_tokens_field: OPENAI,
  n: OVER_HTTP,
  user: BOTH,
  think_tags: OPENAI,
  process: OVER_HTTP,
  preset: OVER_HTTP,
  path: BOTH,
  auth: BOTH,
  service_account: OVER_HTTP,
  probe: OPENAI,
  query: OPENAI,
  headers: OVER_HTTP,
  drop: OPENAI,
  rename: OPENAI,
  extra_body: OPENAI,
  effort_fields: OPENAI,
  developer_role: OPENAI,
  stream_options: OPENAI,
  tool_ids: OPENAI,
  tool_choice: OPENAI,
  api_version: ANTHROPIC,
  betas: ANTHROPIC,
  passthrough: BOTH,
  pass: OVER_HTTP,
  disconnect_grace: OVER_HTTP,
  max_tokens_per_second: OVER_HTTP,
  cost: OPENAI,
  transport: OVER_HTTP,
  pace_ms: BUILT_IN,
  embedding_inputs: EMBEDDING,
  embedding_tokens: EMBEDDING,
  ...mapLimits(() => EVERY),
}
