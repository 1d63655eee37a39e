/** Requests of the Responses API, and of legacy completions, that go on as they came, and their answers. Pure. */

import type { UpstreamOptions } from '../../../domain/dialects.ts'
import { asList, asObject, asText } from '../../../domain/json.ts'
import { toCapEdit, toNativeHeader, toNativeText, toOwnFields } from '../../../domain/native.ts'
import { isSealed } from '../../../domain/sealed-thoughts.ts'
import { findMembers, spliceItems } from '../../../domain/splice.ts'
import type { NativeRequest } from '../../../domain/task.ts'
import type { NativeLane } from '../../backend.ts'
import { PassingDecoder, toRaw, typeOf } from '../passing.ts'
import { PlainDeltas } from '../plain-deltas.ts'
import { CompletionDecoder } from './completion.ts'
import { ResponseDecoder } from './response.ts'

const OF_RESPONSES = toOwnFields(
  'model input instructions max_output_tokens max_tool_calls metadata parallel_tool_calls reasoning store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user safety_identifier prompt_cache_key prompt_cache_retention include background conversation previous_response_id prompt service_tier context_management',
)

const BESIDE =
  /"(?:sequence_number|item_id|output_index|content_index|obfuscation)":(?:\d{1,9}|"[\w-]{0,256}")|"logprobs":\[\]/
    .source

/** A piece of text, and what else the API says in its event, in any order. */
const TEXT = new PlainDeltas({
  before: new RegExp(
    String.raw`event: response\.output_text\.delta\ndata: \{"type":"response\.output_text\.delta",(?:(?:${BESIDE}),){0,8}"delta":"`,
    'y',
  ),
  after: new RegExp(String.raw`"(?:,(?:${BESIDE})){0,8}\}\n\n`, 'y'),
})

export const responses: NativeLane = {
  request: (native, body, target) => ({
    path: `/responses${toQuery(target.upstream.options)}`,
    // Nothing is kept: by what is, one key would find what another has said.
    body: toNativeText(native, target, OF_RESPONSES, {
      store: 'false',
      ...toInputEdit(native),
      ...toCapEdit(native, body, 'max_output_tokens'),
    }),
    headers: toHeaders(native),
  }),

  whole: (json, expected, text = JSON.stringify(json)) => [
    toRaw(null, text, { origin: '' }),
    ...new ResponseDecoder(expected).whole(asObject(json) ?? {}, text),
  ],

  decoder(expected) {
    const inner = new ResponseDecoder(expected)
    return new PassingDecoder(
      inner,
      (event, read) => ({
        origin: OF_THE_WHOLE.has(typeOf(event)) ? 'response' : null,
        isContent: inner.isAtWork,
        isTail: read.at(-1)?.kind === 'done',
      }),
      TEXT,
    )
  },
}

/** Events that have the response in them. */
const OF_THE_WHOLE: ReadonlySet<string> = new Set(
  ['created', 'queued', 'in_progress', 'completed', 'incomplete'].map((state) => `response.${state}`),
)

/** Thoughts that nobody there could read are left out. */
function toInputEdit({ text, json }: NativeRequest): Record<string, string> {
  const isLost = asList(json.input).map((item) => isOfOthers(item) || isKept(item))
  const held = isLost.includes(true) && findMembers(text)?.find(({ name }) => name === 'input')
  const kept = held && spliceItems(text, held.from, (_, at) => (isLost[at] ? [] : null))
  return kept ? { input: kept } : {}
}

const toThought = (value: unknown) => {
  const item = asObject(value)
  return item?.type === 'reasoning' ? item : null
}

/** Whether it was sealed here: then it is another model's. */
const isOfOthers = (item: unknown) => isSealed(asText(toThought(item)?.encrypted_content))

/**
 * Whether it is no more than the id of one that its provider has kept, as of all that were asked for without `encrypted_content`. None is
 * kept of what went through here, and another's must not be found (https://github.com/langchain-ai/langchain/pull/38372).
 */
function isKept(item: unknown): boolean {
  const { id, encrypted_content: sealed, content } = toThought(item) ?? {}
  return typeof id === 'string' && !sealed && asList(content).length === 0
}

const OF_COMPLETIONS = toOwnFields(
  'model prompt suffix max_tokens n stream stream_options temperature top_p logprobs echo stop presence_penalty frequency_penalty logit_bias seed user',
)

export const completions: NativeLane = {
  request(native, body, target) {
    const { options } = target.upstream
    // Usage is always asked for: a stream without it could only be billed by an estimate.
    const asked = JSON.stringify({ ...asObject(native.json.stream_options), include_usage: true })
    const isAsked = body.stream && options.stream_options !== false
    return {
      path: `/completions${toQuery(options)}`,
      body: toNativeText(native, target, OF_COMPLETIONS, {
        ...(isAsked && !wantsUsage(native) ? { stream_options: asked } : {}),
        ...toCapEdit(native, body, 'max_tokens'),
      }),
      headers: toHeaders(native),
    }
  },

  whole: (json, expected, text = JSON.stringify(json)) => [
    toRaw(null, text, { origin: '' }),
    ...new CompletionDecoder(expected).whole(asObject(json) ?? {}, text),
  ],

  decoder(expected) {
    const inner = new CompletionDecoder(expected)
    const isWanted = expected.body.stream_options?.include_usage === true
    return new PassingDecoder(inner, () => {
      // What a client did not ask for it may not know how to read.
      if (inner.isUsageAlone && !isWanted) return null
      return { origin: inner.isOver ? null : '', isTail: inner.isFinished }
    })
  },
}

const wantsUsage = ({ json }: NativeRequest) => asObject(json.stream_options)?.include_usage === true

const toQuery = ({ query }: UpstreamOptions): string => (query ? `?${new URLSearchParams(query)}` : '')

function toHeaders(native: NativeRequest): Record<string, string> {
  const betas = toNativeHeader(native, 'openai-beta')
  return betas === null ? {} : { 'openai-beta': betas }
}
