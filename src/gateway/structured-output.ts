/**
 * Structured output on targets that do not do it by themselves, and on local servers: asks for a whole answer, in words or by the
 * server's own grammar, checks it, and asks again with what was wrong, twice at most. Wraps a dispatch, so every call is recorded
 * and metered there. A request without a `response_format` goes through as it is; so does one to a hosted target that knows it,
 * but that its answers are checked where it promises to keep to a strict schema (`verified`).
 */

import type { PlannedCall } from '../accounting/call.ts'
import { Captured } from '../accounting/meter.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import { endOf, GatewayError, UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerEvent, AnswerStream, PassthroughSink, Take } from '../domain/events.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import { EmbeddingsRequest } from '../domain/task.ts'
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
 * Wraps the dispatch of a key's request. Throws `invalid_request` for what is no schema, `schema_not_met` where no answer is
 * good enough, and what `checker.prepare` throws.
 */
export const enforce =
  (dispatch: Dispatch, checker: Checker, quotaId: string): Dispatch =>
  (planned) => {
    const { body } = planned
    if (body instanceof EmbeddingsRequest) return dispatch(planned)
    const plan = toPlan(body, planned.target)
    if (plan.kind === 'pass') return dispatch(planned)
    if (plan.kind === 'remind') return dispatch({ ...planned, body: toReminded(body) })
    if (plan.kind === 'verify') return verified(planned, textOfSchema(plan.schema), dispatch, checker, quotaId)
    return enforced({ ...planned, body }, plan.wanted, dispatch, checker, quotaId)
  }

/** Schemas as JSON: each choice of a request asks for the same one. */
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
  /** The last answer that was JSON, though not the right one. */
  let unmet: Answer | null = null
  for (let call = 1; call <= MAX_CALLS; call++) {
    mustBeWanted()
    let answer: Answer
    try {
      answer = await dispatch({ ...planned, body, reason: call === 1 ? planned.reason : 'schema' })
    } catch (error) {
      // Not every server of one's own has such formats, or can make a grammar of each schema.
      if (call === 1 && wanted.isHeld && isFormatRefused(error)) {
        instructed = toInstructed(planned.body, { ...wanted, isHeld: false }, planned.target)
        body = instructed
        continue
      }
      // What is there already is worth more than why there is nothing better.
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
      // A check that takes too long fails no answer that was written by a grammar.
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
 * Resolves to what is wrong with the schema, or null. `unchecked`: a local server promises to keep to schemas, and answers cannot be
 * checked against this one here.
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

/** Whether it only keeps a better answer from being made: the upstream failed, or a budget has no room for a correction. */
const isRecoverable = (error: unknown) =>
  error instanceof UpstreamError
    ? error.kind !== 'aborted'
    : error instanceof GatewayError && error.kind === 'insufficient_quota'

/** Reads the answer at least, where it cannot be checked in time. */
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
  return { json, problem: 'checking it takes too long', tooSlow: true }
}

const badSchema = ({ name }: Wanted, problem: string) =>
  new GatewayError('invalid_request', `Invalid schema for response_format '${name}': ${problem}.`, {
    param: 'response_format',
  })

const notMet = ({ target }: PlannedCall, { schema, name }: Wanted, problem: string) =>
  new GatewayError(
    'schema_not_met',
    `Model \`${target.model}\` did not write ${schema === null ? 'a JSON object' : `JSON that meets the schema '${name}'`}. ` +
      `What is wrong with its last answer: ${problem}.`,
    { param: 'response_format' },
  )

/** Of one choice: a longer answer is not checked. */
const MAX_CHARS = 256 * 1024

/**
 * Checks the answers of hosted targets that promise to keep to a strict schema. An answer is delivered as it came; one that does not
 * meet the schema is marked. What cannot be checked, or not in time, counts as met.
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
  // Compiled while the model writes.
  const preparing = checker.prepare(quotaId, schema, signal).then(
    (problem) => problem === null,
    () => false,
  )
  const isMet = async (text: string) => {
    if (!(await preparing)) return true
    const verdict = await checker.judge(quotaId, text, schema, signal)
    // JSON in a code fence, or mended, is not what the client was promised.
    return verdict === 'slow' || (verdict.problem === null && verdict.json === text.trim())
  }
  const answer = await dispatch(planned)
  const verifier = new Verifier(isMet)
  verifier.note(answer.events)
  if (answer.rest) return { ...answer, rest: new VerifiedStream(answer.rest, verifier) }
  return { ...answer, events: await verifier.mark(answer.events) }
}

/** The choices of one answer, as far as they were read. */
class Verifier {
  readonly #isMet: (text: string) => Promise<boolean>
  readonly #texts = new Map<number, Captured>()
  /** Choices that need not meet the schema: they were cut short, are a refusal, or call a tool. */
  readonly #exempt = new Set<number>()

  constructor(isMet: (text: string) => Promise<boolean>) {
    this.#isMet = isMet
  }

  note(events: readonly AnswerEvent[]): void {
    for (const event of events) {
      if (event.kind === 'text') this.noteText(event.choice, event.text)
      else if ('choice' in event && isFinal([event])) this.#exempt.add(event.choice)
      // One without a word of text does not meet the schema either.
      else if (event.kind === 'finish') this.noteText(event.choice, '')
    }
  }

  noteText(choice: number, text: string): void {
    this.#texts.getOrInsertComputed(choice, () => new Captured(MAX_CHARS)).add(text)
  }

  /** Marks the last events of an answer, all of which was noted. */
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

/** The same stream, checked before its last events are handed over. */
class VerifiedStream implements AnswerStream, PassthroughSink {
  /** Where what passes goes on. */
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
    if (this.#sink === null) throw new Error('nothing passes here')
    return this.#sink.pass(frames, text)
  }

  close(): void {
    this.inner.close()
  }
}
