/**
 * Structured output on local servers and on targets without native support: asks for a whole response, by prompt or
 * grammar, validates it, and retries with the error. Responses of other targets to strict schemas are only validated.
 */

import type { PlannedCall } from '../accounting/call.ts'
import { Captured } from '../accounting/meter.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
import { endOf, GatewayError, UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerEvent, AnswerStream, PassthroughSink, Take } from '../domain/events.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import { blamesTheRequest } from '../upstreams/failure.ts'
import type { Dispatch } from './calls.ts'
import type { Verdict } from './json-check-worker.ts'
import type { Checker } from './structured-checker.ts'
import {
  isFinal,
  splitThinking,
  textOf,
  toCorrecting,
  toInstructed,
  toPlan,
  toReminded,
  type Wanted,
  withJson,
  withUnmet,
} from './structured-plan.ts'

const MAX_CALLS = 3

/**
 * Throws `invalid_request` for an invalid schema, `schema_not_met` if no response matches, and what `checker.prepare`
 * throws.
 */
export const enforce =
  (dispatch: Dispatch, checker: Checker, quotaId: string): Dispatch =>
  (planned) => {
    const { body } = planned
    if (body instanceof EndpointRequest) return dispatch(planned)
    const plan = toPlan(body, planned.target)
    if (plan.kind === 'pass') return dispatch(planned)
    if (plan.kind === 'remind') return dispatch({ ...planned, body: toReminded(body) })
    if (plan.kind === 'verify') return verified(planned, textOfSchema(plan.schema), dispatch, checker, quotaId)
    return enforced({ ...planned, body }, plan.wanted, dispatch, checker, quotaId)
  }

const texts = new WeakMap<Record<string, unknown>, string>()
const textOfSchema = (schema: Record<string, unknown>) => texts.getOrInsertComputed(schema, JSON.stringify)

type ChatCall = PlannedCall & { body: CanonicalRequest }

async function enforced(
  planned: ChatCall,
  wanted: Wanted,
  dispatch: Dispatch,
  checker: Checker,
  quotaId: string,
): Promise<Answer> {
  const schema = wanted.schema === null ? null : textOfSchema(wanted.schema)
  const wrong = schema === null ? null : await prepare(checker, quotaId, schema, planned)
  if (wrong === 'unchecked') return dispatch(planned)
  const mustBeWanted = () => {
    if (planned.signal.aborted) throw endOf(planned.signal)
  }
  mustBeWanted()
  if (wrong !== null) throw badSchema(wanted, wrong)
  let instructed = toInstructed(planned.body, wanted, planned.target)
  let body = instructed
  let problem = ''
  let unmet: Answer | null = null
  for (let call = 1; call <= MAX_CALLS; call++) {
    mustBeWanted()
    let answer: Answer
    try {
      answer = await dispatch({ ...planned, body, reason: call === 1 ? planned.reason : 'schema' })
    } catch (error) {
      // Not every local server supports these formats, or can make a grammar of each schema.
      if (call === 1 && wanted.isHeld && isFormatRefused(error)) {
        instructed = toInstructed(planned.body, { ...wanted, isHeld: false }, planned.target)
        body = instructed
        continue
      }
      // A response that doesn't match is worth more than an error.
      if (unmet && !wanted.strict && isRecoverable(error)) return unmet
      throw error
    }
    if (isFinal(answer.events)) return answer
    const { thinking, answer: said } = splitThinking(textOf(answer.events))
    const verdict = await judge(checker, quotaId, said, schema, planned.signal)
    mustBeWanted()
    if (verdict.json !== null && (verdict.problem === null || wanted.schema !== null)) {
      const read: Answer = { ...answer, events: withJson(answer.events, verdict.json, thinking) }
      if (verdict.problem === null) return read
      // Slow validation doesn't fail a response written by a grammar.
      if (verdict.tooSlow && wanted.isHeld) return read
      unmet = { ...read, events: withUnmet(read.events) }
    }
    problem = verdict.problem ?? ''
    if (verdict.tooSlow) break
    body = toCorrecting(instructed, said, problem)
  }
  if (unmet && !wanted.strict) return unmet
  throw notMet(planned, wanted, problem)
}

/**
 * Resolves to the schema's error, or null. `unchecked`: a local server promises to keep to schemas that can't be
 * validated here.
 */
async function prepare(
  checker: Checker,
  quotaId: string,
  schema: string,
  { target: { features, upstream }, signal }: PlannedCall,
): Promise<string | null> {
  const preparing = checker.prepare(quotaId, schema, signal)
  if (!upstream.local || !features.includes('structured_outputs')) return preparing
  const wrong = await preparing.catch(() => 'not now')
  return wrong === null ? null : 'unchecked'
}

const isFormatRefused = (error: unknown): boolean =>
  error instanceof UpstreamError &&
  error.kind === 'status' &&
  blamesTheRequest(error.status) &&
  FORMAT.test(error.message)
const FORMAT = /response_format|json_object|json[ _]schema|grammar/i

/** Whether only a better response was prevented: the upstream failed, or a budget can't cover a correction. */
const isRecoverable = (error: unknown) =>
  error instanceof UpstreamError
    ? error.kind !== 'aborted'
    : error instanceof GatewayError && error.kind === 'insufficient_quota'

/** If validation is too slow, at least extracts the JSON. */
async function judge(
  checker: Checker,
  quotaId: string,
  text: string,
  schema: string | null,
  signal: EndSignal,
): Promise<Verdict & { tooSlow: boolean }> {
  const verdict = await checker.judge(quotaId, text, schema, signal)
  if (verdict !== 'slow') return { ...verdict, tooSlow: false }
  const read = schema === null ? 'slow' : await checker.judge(quotaId, text, '{}', signal)
  const json = read === 'slow' ? null : read.json
  return { json, problem: 'validation takes too long', tooSlow: true }
}

const badSchema = ({ name }: Wanted, problem: string) =>
  new GatewayError('invalid_request', `Invalid schema for response_format '${name}': ${problem}.`, {
    param: 'response_format',
  })

const notMet = ({ target }: PlannedCall, { schema, name }: Wanted, problem: string) =>
  new GatewayError(
    'schema_not_met',
    `Model \`${target.model}\` did not return ${schema === null ? 'a JSON object' : `JSON matching schema \`${name}\``}. ` +
      `Problem with its last response: ${problem}.`,
    { param: 'response_format' },
  )

const MAX_CHARS = 256 * 1024

/**
 * For hosted targets that promise to keep to a strict schema. A mismatch is delivered unchanged, but marked; what can't
 * be validated in time counts as matching.
 * @param schema as JSON.
 */
async function verified(
  planned: PlannedCall,
  schema: string,
  dispatch: Dispatch,
  checker: Checker,
  quotaId: string,
): Promise<Answer> {
  const { signal } = planned
  // Compiles while the model writes.
  const preparing = checker.prepare(quotaId, schema, signal).then(
    (problem) => problem === null,
    () => false,
  )
  const isMet = async (text: string) => {
    if (!(await preparing)) return true
    const verdict = await checker.judge(quotaId, text, schema, signal)
    // The client was promised plain JSON, not a code fence or JSON to repair.
    return verdict === 'slow' || (verdict.problem === null && verdict.json === text.trim())
  }
  const answer = await dispatch(planned)
  const verifier = new Verifier(isMet)
  verifier.note(answer.events)
  if (answer.rest) return { ...answer, rest: new VerifiedStream(answer.rest, verifier) }
  return { ...answer, events: await verifier.mark(answer.events) }
}

class Verifier {
  readonly #isMet: (text: string) => Promise<boolean>
  readonly #texts = new Map<number, Captured>()
  /** Choices that need not match: truncated, a refusal, or a tool call. */
  readonly #exempt = new Set<number>()

  constructor(isMet: (text: string) => Promise<boolean>) {
    this.#isMet = isMet
  }

  note(events: readonly AnswerEvent[]): void {
    for (const event of events) {
      if (event.kind === 'text') this.noteText(event.choice, event.text)
      else if ('choice' in event && isFinal([event])) this.#exempt.add(event.choice)
      // A choice without text doesn't match either.
      else if (event.kind === 'finish') this.noteText(event.choice, '')
    }
  }

  noteText(choice: number, text: string): void {
    this.#texts.getOrInsertComputed(choice, () => new Captured(MAX_CHARS)).add(text)
  }

  async mark(events: readonly AnswerEvent[]): Promise<readonly AnswerEvent[]> {
    if (events.at(-1)?.kind !== 'done') return events
    let marked = events
    for (const [choice, { text, more }] of this.#texts) {
      if (more > 0 || this.#exempt.has(choice) || (await this.#isMet(text))) continue
      marked = withUnmet(marked, choice)
    }
    return marked
  }
}

class VerifiedStream implements AnswerStream, PassthroughSink {
  #sink: PassthroughSink | null = null

  constructor(
    readonly inner: AnswerStream,
    readonly verifier: Verifier,
  ) {}

  pump(take: Take, sink?: PassthroughSink): Promise<void> {
    this.#sink = sink ?? null
    const noted: Take = (events) => {
      this.verifier.note(events)
      return events.at(-1)?.kind === 'done' ? this.verifier.mark(events).then(take) : take(events)
    }
    return this.inner.pump(noted, sink && this)
  }

  pass(frames: string, text: string): boolean | Promise<boolean> {
    this.verifier.noteText(0, text)
    if (this.#sink === null) throw new Error('not a passthrough response')
    return this.#sink.pass(frames, text)
  }

  close(): void {
    this.inner.close()
  }
}
