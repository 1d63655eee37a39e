/** Checks the responses of Responses API clients in a chaos story, and converts them to those of chat clients. */

import type { Report } from '../../support/contract.ts'
import { emptyChoice } from '../../support/contract-choice.ts'
import type { ErrorFields } from '../../support/contract-frames.ts'
import type { UsageReport } from '../../support/contract-parts.ts'
import { checkResponse, checkResponseStream, type Json } from '../../support/responses-contract.ts'

/** The last event of a stream that ended normally. */
export const RESPONSE_END = /event: response\.(completed|incomplete|failed)\ndata: [^\n]*\n\n$/

export function checkResponseText(text: string, stream: boolean): { report: Report; error: ErrorFields | null } {
  if (!stream) return { report: toReport(checkResponse(JSON.parse(text))), error: null }
  const { events, response } = checkResponseStream(text)
  const report = toReport(response)
  const failure = response.error as { code: string; message: string } | null
  if (failure === null) return { report, error: null }
  // Unfinished items are in no output: their text was only in deltas.
  const said = events.flatMap((event) => (event.type === 'response.output_text.delta' ? [String(event.delta)] : []))
  const choices = said.length === 0 ? [] : [{ ...emptyChoice(0), content: said.join('') }]
  return { report: { ...report, choices }, error: toError(failure) }
}

function toReport({ id, model, created_at: created, status, output, usage }: Json): Report {
  const parts = (output as Json[]).flatMap(({ content }) => content as Json[])
  const content = parts.map(({ text }) => String(text)).join('')
  const finish = status === 'completed' ? 'stop' : 'length'
  return {
    identity: { id: String(id), model: String(model), created: Number(created) },
    choices: [{ ...emptyChoice(0), content, finish }],
    usage: usage ? toUsage(usage as Json) : null,
  }
}

const toUsage = (usage: Json): UsageReport => ({
  prompt: Number(usage.input_tokens),
  cached: Number((usage.input_tokens_details as Json).cached_tokens),
  completion: Number(usage.output_tokens),
  reasoning: Number((usage.output_tokens_details as Json).reasoning_tokens),
})

/** A stream's error has fewer fields than a refusal, and a limit has the code that clients retry on. */
function toError({ code, message }: { code: string; message: string }): ErrorFields {
  if (code === 'rate_limit_exceeded') return { code: 'upstream_rate_limited', type: 'requests', param: null, message }
  const isOurs = code === 'upstream_failed' || code === 'upstream_timeout'
  return { code, type: isOurs ? 'server_error' : 'invalid_request_error', param: null, message }
}
