/** A turn of a realtime session: one request, with the responses and transcriptions of what the client sent. */
import { CallLog } from '../accounting/call-log.ts'
import type { Meter } from '../accounting/meter.ts'
import { Settlement } from '../accounting/settle.ts'
import type { EndSignal } from '../domain/end-signal.ts'
import { type Decision, GatewayError, UpstreamError } from '../domain/error.ts'
import { mintId } from '../domain/id.ts'
import { asObject, type JsonObject } from '../domain/json.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { CatalogModel, Key, Target, Team, Upstream } from '../domain/snapshot.ts'
import { addUsage, type ModelUsage, NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Permit, Reservation } from '../limits/limiter.ts'
import type { OpenRow, Reserve } from '../store/ledger-rows.ts'
import { toResponseUsage, toTranscriptionUsage } from '../upstreams/realtime.ts'
import { toGatewayError } from './delivery.ts'
import type { HandleDeps } from './handle.ts'
import { type Conversation, type Most, mostOf, toBytes } from './realtime-conversation.ts'

const LIKELY_OUTPUT = 1_024

interface Beginning {
  key: Key
  team: Team | null
  model: CatalogModel
  /** The upstream with the credential in use; null if it has at most one. */
  used: Upstream | null
  signal: EndSignal
  conversation: Conversation
}

/** Applies limits and records the turn. On an error, nothing stays reserved. */
export async function beginTurn(
  deps: HandleDeps,
  { key, team, model, used, signal, conversation }: Beginning,
): Promise<Decision<Turn>> {
  const { limiter, ledger, counter, disconnectedCalls, now, monotonicMs, instance, load, refusals, onFinished } = deps
  const { target } = conversation
  if (load.isDraining) return new GatewayError('stopped', 'The server is restarting. Connect again.')
  using held = new DisposableStack()
  const createdMs = now()
  const id = mintId(createdMs)
  const moment = { monotonicMs: monotonicMs(), wallMs: createdMs }
  const refuse = (error: GatewayError) => {
    refusals.note(error.kind, key, now())
    return error
  }
  const slot = load.enter(key)
  if (slot instanceof GatewayError) return refuse(slot)
  held.use(slot)
  const entered = await limiter.enter(id, key, team, moment.monotonicMs)
  if (entered instanceof GatewayError) return refuse(entered)
  const most = conversation.most()
  const tokens = likelyOf(most)
  const isBudgeted = Boolean(key.budget || team?.budget)
  const reservation = await entered.admit({ tokens, nanoUsd: isBudgeted ? most.nanoUsd : 0 }, moment)
  if (reservation instanceof GatewayError) {
    await entered.refuse(reservation, moment.monotonicMs)
    return refuse(reservation)
  }
  held.defer(() => reservation.cancel())
  const permit = await limiter.permit(target.upstream, tokens, moment.monotonicMs)
  if (permit instanceof UpstreamError) return refuse(toGatewayError(permit))
  held.defer(() => permit.leave(0))
  const reserve = toReserve(NO_USAGE, most, 1, target)
  const row: OpenRow = {
    ...{ id, instance, keyId: key.id, teamId: key.teamId, model: model.facts.id },
    ...{ endpoint: 'realtime', lane: 'native', stream: 1, createdMs, user: null },
    ...{ upstream: target.upstream.id, upstreamModel: target.upstreamModel, priceId: target.priceId, ...reserve },
  }
  try {
    await ledger.open(row)
  } catch (error) {
    return toGatewayError(error)
  }
  const body: CanonicalRequest = { model: model.facts.id, messages: [], stream: true, max_tokens: most.completion }
  const calls = new CallLog({
    ...{ ledger, row, first: target, reservation, counter, key, signal, disconnectedCalls, now, monotonicMs },
    ...{ outputCap: null, isUncapped: false },
  })
  const call = await calls.begin({ target, used, body, passthrough: null, reason: 'first', signal: NEVER }, reserve)
  if (target.upstream.credentials.length > 1) call.meter.credential = (used ?? target.upstream).credentialNumber
  const settlement = new Settlement({
    ...{ ledger, counter, calls, reservation, readAtMs: moment.monotonicMs, monotonicMs, trace: null, onFinished },
  })
  const grow = (reserve: Reserve) => {
    const { reservedNanoUsd: heldNanoUsd, reservedCompletionTokens: before } = calls.row
    // Of two records, ledgers keep the one with more output.
    const reservedCompletionTokens = Math.max(reserve.reservedCompletionTokens, before + 1)
    calls.row = { ...calls.row, ...reserve, reservedCompletionTokens }
    ledger.grow({ kind: 'open', row: calls.row, heldNanoUsd })
  }
  const parts = { settlement, meter: call.meter, permit, reservation, isBudgeted, grow, monotonicMs, held: held.move() }
  return new Turn(conversation, parts, most)
}

interface TurnParts {
  settlement: Settlement
  meter: Meter
  permit: Permit
  reservation: Reservation
  isBudgeted: boolean
  /** Replaces the row's reserve, which is charged after a crash. */
  grow(reserve: Reserve): void
  monotonicMs(): number
  /** The turn's admission slot and reservations. */
  held: Disposable
}

export class Turn {
  /** Responses that the client requested, and those in progress. */
  asked = 0
  running = 0
  /** Transcriptions in progress. */
  hearing = 0
  /** Time of the last activity, monotonic ms. */
  lastMs: number
  hasResponded = false
  readonly #usage: Usage = { ...NO_USAGE }
  readonly #others: ModelUsage[] = []
  /** Output of responses in progress, for an estimate if they are interrupted. */
  #spokenBytes = 0
  #writtenBytes = 0
  /** Number of reserved responses. */
  #responses = 1

  /** @param reserved per response. */
  constructor(
    private readonly conversation: Conversation,
    private readonly parts: TurnParts,
    private reserved: Most,
  ) {
    this.lastMs = parts.monotonicMs()
  }

  get responses(): number {
    return this.asked + this.running
  }

  get isBusy(): boolean {
    return this.responses + this.hearing > 0
  }

  /** Whether the reservation covers the conversation so far, and one more response if `isAsked`. */
  covers(isAsked: boolean): boolean {
    const { conversation, reserved } = this
    if (conversation.tokens > reserved.prompt || this.#needs(isAsked) > this.#responses) return false
    return !isAsked || conversation.maxOutput <= reserved.completion
  }

  #needs = (isAsked: boolean) => Math.max(1, this.responses + (isAsked ? 1 : 0))

  async raise(isAsked: boolean): Promise<GatewayError | null> {
    const { conversation, parts } = this
    const most = conversation.most()
    const responses = Math.max(this.#responses, this.#needs(isAsked))
    const reserve = toReserve(this.#usage, most, responses, conversation.target)
    const tokens = this.#usage.prompt + likelyOf(most) * responses
    const nanoUsd = parts.isBudgeted ? reserve.reservedNanoUsd : 0
    const refused = await parts.reservation.raise({ tokens, nanoUsd, isMore: true })
    if (refused) return refused
    parts.grow(reserve)
    this.reserved = most
    this.#responses = responses
    return null
  }

  /** The client sends an event that may be charged. */
  says(isAsked: boolean): void {
    // After the response, the turn only waits for a transcription, which may never come.
    if (!this.hasResponded) this.lastMs = this.parts.monotonicMs()
    if (isAsked) this.asked++
  }

  /** A response has begun. */
  responds(): void {
    this.lastMs = this.parts.monotonicMs()
    this.asked = Math.max(0, this.asked - 1)
    this.running++
    this.conversation.beginResponse()
  }

  spoke(base64: string): void {
    this.#began()
    this.#spokenBytes += toBytes(base64)
  }

  wrote(text: string): void {
    this.#began()
    this.#writtenBytes += text.length
  }

  #began(): void {
    this.parts.settlement.firstToken()
    this.parts.meter.take(CONTENT)
  }

  /** A response has ended. */
  responded(response: JsonObject): void {
    const used = asObject(response.usage)
    this.lastMs = this.parts.monotonicMs()
    this.hasResponded = true
    this.running = Math.max(0, this.running - 1)
    this.#responses = Math.max(0, this.#responses - 1)
    if (used || this.#spokenBytes + this.#writtenBytes > 0) {
      const usage = used ? toResponseUsage(used) : this.conversation.estimate(this.#spokenBytes, this.#writtenBytes)
      addUsage(this.#usage, usage)
      this.conversation.endResponse(usage, this.running === 0, response.conversation_id === null)
    }
    this.#spokenBytes = 0
    this.#writtenBytes = 0
  }

  /** @param used null if the upstream doesn't report it. */
  transcribed(used: JsonObject | null): void {
    const { conversation } = this
    this.lastMs = this.parts.monotonicMs()
    this.hearing = Math.max(0, this.hearing - 1)
    const usage = used ? toTranscriptionUsage(used) : conversation.estimateTranscription()
    conversation.endTranscription()
    const model = conversation.transcriber ?? 'transcription'
    if (model === conversation.target.upstreamModel) addUsage(this.#usage, usage)
    else this.#others.push({ model, usage })
  }

  /** @param code null for a normal end. Throws `ledger_unavailable`. */
  async settle(code: string | null): Promise<void> {
    const { meter, permit, settlement, held } = this.parts
    const isCut = code !== null && this.isBusy
    if (isCut && this.responses > 0)
      addUsage(this.#usage, this.conversation.estimate(this.#spokenBytes, this.#writtenBytes))
    if (isCut && this.hearing > 0) this.transcribed(null)
    meter.take([{ kind: 'usage', usage: this.#usage, others: this.#others }])
    meter.end(isCut ? 'cut' : 'ok')
    permit.leave(this.#usage.prompt + this.#usage.completion)
    try {
      await settlement.settle({
        status: isCut ? 'cut' : 'ok',
        httpStatus: isCut && code === 'client_closed' ? 499 : 200,
        errorCode: isCut ? code : null,
      })
    } finally {
      held[Symbol.dispose]()
    }
  }
}

/** The call ends only with its turn, even if the client disconnects. */
const NEVER: EndSignal = new AbortController().signal

const CONTENT = [{ kind: 'raw', name: null, data: '', origin: null, isContent: true, isTail: false }] as const

const likelyOf = ({ prompt, completion }: Most): number => prompt + Math.min(completion, LIKELY_OUTPUT)

/** For a turn with this usage and up to this many further responses. */
const toReserve = (usage: Usage, most: Most, responses: number, target: Target): Reserve => ({
  reservedPromptTokens: usage.prompt + most.prompt * responses,
  reservedCompletionTokens: usage.completion + most.completion * responses,
  reservedNanoUsd: mostOf(target, usage) + most.nanoUsd * responses,
})
