/**
 * Facts about every provider format, one row each, so that no code compares dialect names. The code of a format is loaded with its first
 * call.
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
import type { OtherEndpoint } from '../../domain/task.ts'
import { isServiceAccount } from '../auth.ts'
import { type Held, toHeld } from './anthropic/schema.ts'
import type { WireFormat } from './dialect.ts'

export interface Dialect {
  /** Loads the code of the format; null for the built-in model. */
  readonly load: (() => Promise<WireFormat>) | null
  /** '' if its upstreams have no URL. */
  readonly exampleUrl: string
  /** Path of its API on a local server that Tollgate starts; '' for the root. */
  readonly localPath: '' | `/${string}`
  readonly defaults: Readonly<Record<'remote' | 'local', UpstreamOptions>>
  /** Client formats that its upstreams may accept, so requests pass through. */
  readonly passthrough: readonly PassthroughEndpoint[]
  authority(upstream: Pick<Upstream, 'credential' | 'options'>): AuthorityName | null
  readonly output: StructuredOutput
  readonly embeds: 'texts and tokens' | 'texts' | 'nothing'
  /** Endpoints in addition to chats and embeddings. A model's output modalities say which of these it has. */
  readonly endpoints: readonly OtherEndpoint[]
  /** True if its upstreams have OpenAI's realtime API. */
  readonly hasRealtime: boolean
  /** True if the client's service tier is forwarded, and the tier in the response is read. */
  readonly tellsMode: Readonly<Record<'translated' | 'native', boolean>>
  /** How responses report web searches: by a count or, if translated, only by citations. */
  readonly searches: 'counted' | 'cited'
  /** True if responses state the lifetime of written cache entries. */
  readonly tellsCacheLifetime: boolean
  /** True if its models have several ways to request reasoning, so a route has to choose. */
  readonly hasWaysToThink: boolean
}

export type AuthorityName = 'google'

export interface Thinks {
  features: readonly Feature[]
  options: RouteSettings
}

/** How its upstreams enforce `response_format`. */
export interface StructuredOutput {
  readonly hasJsonMode: boolean
  /** The part of a schema that they enforce; null if they accept any. */
  readonly heldOf: ((schema: JsonObject) => Held) | null
  /** True if local ones are engines that enforce any schema by a grammar, whatever the model. */
  readonly hasLocalGrammars: boolean
  /** True if a target accepts a format together with tools or search, even if the model may not call them. */
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

/** Local inference servers know the older field name, write or count only one choice, and leave thinking in the text. */
const LOCAL_OPTIONS: UpstreamOptions = {
  ...DEFAULT_OPTIONS,
  max_tokens_field: 'max_tokens',
  n: false,
  think_tags: true,
}

/** Upstreams with a vendor's own format write one choice per call. */
export const OWN_FORMAT_OPTIONS: UpstreamOptions = { ...DEFAULT_OPTIONS, n: false }

const MESSAGES_OPTIONS: UpstreamOptions = { ...OWN_FORMAT_OPTIONS, passthrough: ['messages'] }

/** Google refuses more in one call (`BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch`). */
const GEMINI_OPTIONS: UpstreamOptions = { ...OWN_FORMAT_OPTIONS, passthrough: ['gemini'], embedding_inputs: 100 }

const toBoth = (options: UpstreamOptions): Dialect['defaults'] => ({ remote: options, local: options })

const ANY_OUTPUT: StructuredOutput = {
  hasJsonMode: true,
  heldOf: null,
  hasLocalGrammars: false,
  takesBesideTools: () => true,
}

/** Google serves its own and others' models for service accounts. */
const byAccount: Dialect['authority'] = (upstream) => (isServiceAccount(upstream) ? 'google' : null)
const byCredential: Dialect['authority'] = () => null

/**
 * True for Gemini 3 and later. Decided by the route's `thinking`, since names are arbitrary: these models use a level, not a number of
 * tokens. Earlier models accept no images in tool results, and refuse search with functions and JSON with tools ("Function calling with a
 * response mime type: 'application/json' is unsupported"). Later ones refuse calls of the current turn without a signature
 * (ai.google.dev/gemini-api/docs/gemini-3).
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
    hasRealtime: true,
    endpoints: ['rerank', 'moderations', 'transcriptions', 'translations', 'speech', 'images', 'image_edits'],
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
    hasRealtime: false,
    endpoints: [],
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
    passthrough: ['gemini'],
    authority: byAccount,
    output: { ...ANY_OUTPUT, takesBesideTools: isSinceGemini3 },
    embeds: 'texts',
    hasRealtime: false,
    endpoints: ['images', 'image_edits'],
    tellsMode: { translated: true, native: true },
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
    hasRealtime: false,
    endpoints: [],
    tellsMode: { translated: false, native: false },
    searches: 'counted',
    tellsCacheLifetime: false,
    hasWaysToThink: false,
  },
  demo: {
    load: null,
    exampleUrl: '',
    localPath: '',
    defaults: toBoth(DEFAULT_OPTIONS),
    passthrough: [],
    authority: byCredential,
    output: ANY_OUTPUT,
    embeds: 'texts and tokens',
    hasRealtime: false,
    endpoints: [],
    tellsMode: { translated: false, native: false },
    searches: 'counted',
    tellsCacheLifetime: false,
    hasWaysToThink: false,
  },
}

/** A row for an upstream. An upstream with a newer version's dialect is never called, so any row is fine. */
export const dialectOf = ({ dialect }: { dialect: DialectName }): Dialect =>
  DIALECTS[dialect] ?? DIALECTS[USUAL_DIALECT]

export const findDialect = (name: unknown): Dialect | undefined =>
  Object.entries(DIALECTS).find(([known]) => known === name)?.[1]

export const forEachDialect = <T>(make: (dialect: Dialect) => T) =>
  Object.fromEntries(Object.entries(DIALECTS).map(([name, dialect]) => [name, make(dialect)])) as Record<DialectName, T>

export type Has = Readonly<Record<DialectName, boolean>>

const EVERY: Has = { openai: true, anthropic: true, gemini: true, ollama: true, demo: true }
const OVER_HTTP: Has = { ...EVERY, demo: false }
const BUILT_IN: Has = { openai: false, anthropic: false, gemini: false, ollama: false, demo: true }
const OPENAI: Has = { ...BUILT_IN, openai: true, demo: false }
const ANTHROPIC: Has = { ...BUILT_IN, anthropic: true, demo: false }
const BOTH: Has = { ...OPENAI, anthropic: true }
const EMBEDDING: Has = { ...EVERY, anthropic: false }

/** Settings by dialect. A dialect with a URL requires it. */
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
  passthrough: { ...BOTH, gemini: true },
  batches: BOTH,
  pass: OVER_HTTP,
  disconnect_grace: OVER_HTTP,
  max_tokens_per_second: OVER_HTTP,
  cost: OPENAI,
  transport: OVER_HTTP,
  pace_ms: BUILT_IN,
  embedding_inputs: EMBEDDING,
  embedding_tokens: EMBEDDING,
  rerank: OPENAI,
  images: OPENAI,
  ...mapLimits(() => EVERY),
}
