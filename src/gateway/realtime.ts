/**
 * A realtime session: a WebSocket between a client and an upstream. Each turn, from what the client sends until the responses to it
 * have ended, is a request of its own: limited, recorded before it is sent, and settled before its end is passed on.
 */
import type { ServerWebSocket } from 'bun'
import type { EndSignal } from '../domain/end-signal.ts'
import { type Decision, GatewayError, orThrow, UpstreamError } from '../domain/error.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import { asList, asObject, asText, type JsonObject, tryJson } from '../domain/json.ts'
import type { CatalogModel, Key, Target, Upstream } from '../domain/snapshot.ts'
import { authenticate } from '../keys/token.ts'
import { teamOf, visibleModel } from '../routing/access.ts'
import { order, resolve } from '../routing/route.ts'
import { toPublic } from '../upstreams/credential-scrubbing.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { connectRealtime } from '../upstreams/realtime.ts'
import type { AdmissionSlot } from './admission.ts'
import { noneReady } from './calls.ts'
import { toGatewayError } from './delivery.ts'
import type { Authenticated } from './exchange.ts'
import type { HandleDeps } from './handle.ts'
import { InOrder } from './in-order.ts'
import { beginTurn, Conversation, Turn } from './realtime-turn.ts'

export interface RealtimeData {
  open(client: ServerWebSocket<RealtimeData>): void
  message(client: ServerWebSocket<RealtimeData>, text: string | Buffer): void
  close(): void
}

/** What may wait for a turn to begin or to be settled, or for a slow side, bytes. */
const MAX_WAITING = 16 * 1024 * 1024
const CHECK_MS = 2_000

/** What clients may send; of these the first group starts a turn. */
const STARTS: ReadonlySet<unknown> = new Set([
  ...['response.create', 'input_audio_buffer.append', 'input_audio_buffer.commit', 'conversation.item.create'],
])
const OTHERS: ReadonlySet<unknown> = new Set([
  ...['session.update', 'transcription_session.update', 'input_audio_buffer.clear', 'output_audio_buffer.clear'],
  ...['conversation.item.retrieve', 'conversation.item.truncate', 'conversation.item.delete', 'response.cancel'],
])

/** Finds a target and connects to it. Throws a GatewayError or an UpstreamError. */
export async function openSession(
  deps: HandleDeps,
  caller: Authenticated,
  query: Readonly<Record<string, string>>,
): Promise<RealtimeSession> {
  if (caller.incoming.headers.upgrade?.toLowerCase() !== 'websocket') throw notAWebSocket()
  const asked = query.model ?? ''
  if (asked === '') throw new GatewayError('invalid_request', 'Name a model: `?model=…`.', { param: 'model' })
  if (query.call_id !== undefined)
    throw new GatewayError('invalid_request', 'Calls by WebRTC or SIP are not supported.', { param: 'call_id' })
  const slot = orThrow(deps.load.enter(caller.key))
  caller.held.use(slot)
  const { snapshot, key, id } = caller
  const { model, targets } = orThrow(resolve(snapshot, key, asked))
  const able = targets.filter(({ upstream }) => dialectOf(upstream).hasRealtime && upstream.baseUrl !== null)
  if (able.length === 0) throw noRealtime(model)
  const health = deps.health.forRequest(key)
  const controller = new AbortController()
  const signal = slot.admit(controller.signal)
  let last: unknown = null
  for (const target of order(
    able,
    key,
    () => id,
    (each) => health.availability(each),
  )) {
    if (!health.enter(target)) continue
    const { each } = target.upstream
    const used = each && health.withCredential(target, each, id, new Set())
    try {
      const upstream = await connectRealtime(target, used ?? target.upstream, `${id}-1`, signal)
      health.report(target, 'ok', used)
      return new RealtimeSession(deps, caller, { slot, controller, signal, model, target, used }, upstream)
    } catch (error) {
      last = error
      health.report(target, error instanceof UpstreamError ? error : 'aborted', used)
      if (!(error instanceof UpstreamError) || error.kind === 'aborted') break
      error.upstream ??= target.upstream.id
    }
  }
  throw last ?? noneReady(health, able)
}

const notAWebSocket = () =>
  new GatewayError('invalid_request', 'The realtime API needs a WebSocket.', {
    ...{ status: 426, code: 'websocket_required', headers: { upgrade: 'websocket' } },
  })

const noRealtime = ({ facts: { id } }: CatalogModel) =>
  new GatewayError(
    'invalid_request',
    `The model \`${id}\` has no realtime API. Use /v1/chat/completions, or a model of an upstream with OpenAI's realtime API.`,
    { code: 'unsupported_endpoint', param: 'model' },
  )

interface Found {
  slot: AdmissionSlot
  /** Aborts when the client is gone. */
  controller: AbortController
  /** Also when the server stops. */
  signal: EndSignal
  model: CatalogModel
  target: Target
  /** With the credential in use; null if there is one at most. */
  used: Upstream | null
}

export class RealtimeSession implements RealtimeData {
  readonly #deps: HandleDeps
  readonly #caller: Authenticated
  readonly #found: Found
  #key: Key
  readonly #upstream: WebSocket
  #client: ServerWebSocket<RealtimeData> | null = null
  #turn: Turn | null = null
  #beginning: Promise<Decision<Turn>> | null = null
  readonly #conversation: Conversation
  #held = 0
  #isClosed = false
  readonly #timer: Timer
  readonly #fromClient: InOrder
  readonly #fromUpstream: InOrder

  constructor(deps: HandleDeps, caller: Authenticated, found: Found, upstream: WebSocket) {
    this.#deps = deps
    this.#caller = caller
    this.#key = caller.key
    this.#found = found
    this.#upstream = upstream
    this.#conversation = new Conversation(found.target)
    const take = (bytes: number) => this.#hold(bytes)
    const fail = (error: unknown) => this.#fail(error)
    this.#fromClient = new InOrder((text) => this.#takeFromClient(text), MAX_WAITING, take, fail)
    this.#fromUpstream = new InOrder((text) => this.#takeFromUpstream(text), MAX_WAITING, take, fail)
    // Until the client is there, its events wait.
    this.#fromUpstream.pause()
    upstream.onmessage = ({ data }) => this.#fromUpstream.take(String(data))
    upstream.onerror = () => {}
    upstream.onclose = ({ code, reason }) => {
      void this.#fromUpstream.idle().then(() => this.#close(toCode(code), this.#scrub(reason), 'upstream_failed'))
    }
    this.#timer = setInterval(() => this.#check(), CHECK_MS)
    found.signal.addEventListener('abort', () => this.#check())
  }

  get headers(): Record<string, string> {
    return {
      'x-request-id': toRequestId(this.#caller.id),
      'x-tollgate-upstream': this.#found.target.upstream.id,
    }
  }

  open(client: ServerWebSocket<RealtimeData>): void {
    this.#client = client
    this.#fromUpstream.resume()
  }

  message(_: unknown, text: string | Buffer): void {
    if (typeof text === 'string') this.#fromClient.take(text)
    else this.#refuse(invalid('Send events as text frames of JSON.', null))
  }

  close(): void {
    this.#client = null
    void this.#leave()
  }

  /** The client could not be upgraded. */
  drop(): void {
    void this.#close(1_001, '', null)
  }

  /** A client that has left may be charged for a response: ends it, and reads what it used. */
  async #leave(): Promise<void> {
    this.#found.controller.abort('disconnected')
    const ms = this.#deps.disconnectedCalls.readOnMs(this.#found.target.upstream)
    await this.#beginning
    if (this.#turn?.isBusy && ms > 0 && !this.#isClosed) {
      this.#upstream.send('{"type":"response.cancel"}')
      await Promise.race([this.#ended(), Bun.sleep(ms)])
    }
    await this.#close(1_000, '', 'client_closed')
  }

  async #ended(): Promise<void> {
    while (this.#turn !== null && !this.#isClosed) await Bun.sleep(20)
  }

  /** A revoked key, a removed model, and a drain end a session that no one speaks in. */
  #check(): void {
    if (this.#isClosed) return
    if (this.#deps.load.isDraining && this.#turn === null) void this.#close(1_012, 'The server is restarting.', null)
    else if (this.#found.signal.reason === 'stopped') void this.#close(1_012, 'The server is shutting down.', 'stopped')
    else this.#checkAccess()
  }

  #checkAccess(): void {
    const access = this.#access()
    if (access instanceof GatewayError) void this.#closeWith(access)
  }

  /** The key as it is now: a session outlives changes of its limits, budget, and models. */
  #access(): Decision<Key> {
    const { snapshot } = this.#deps.live
    const { incoming } = this.#caller
    const key = incoming.owner ?? authenticate(snapshot, incoming, this.#deps.now())
    if (key instanceof GatewayError) return key
    this.#key = key
    return visibleModel(snapshot, key, this.#found.model.facts.id) ? key : noRealtime(this.#found.model)
  }

  // ----- from the client

  #takeFromClient(text: string): void | Promise<void> {
    if (this.#isClosed || this.#client === null) return
    const event = asObject(tryJson(text))
    if (event === null) return this.#refuse(invalid('An event is a JSON object with a `type`.', null))
    const eventId = asText(event.event_id) || null
    const isStart = STARTS.has(event.type)
    if (!isStart && !OTHERS.has(event.type))
      return this.#refuse(invalid(`Unknown event type: '${asText(event.type).slice(0, 100)}'.`, eventId))
    const wrong = this.#adapt(event)
    if (wrong) return this.#refuse(invalid(wrong, eventId))
    if (!isStart) return this.#send(event)
    return this.#inTurn(event, eventId)
  }

  #inTurn(event: JsonObject, eventId: string | null): void | Promise<void> {
    const conversation = this.#conversation
    const heard = conversation.tokensOf(event)
    conversation.tokens += heard
    const isCreate = event.type === 'response.create'
    const most = asObject(event.response)?.max_output_tokens
    // Replaces that of the session.
    if (isCreate && most !== undefined)
      conversation.maxOutput = Math.max(conversation.maxOutput, conversation.toMaxOutput(most))
    const turn = this.#turn
    if (turn?.covers(isCreate)) {
      this.#start(turn, event)
      return
    }
    return this.#whenAllowed(turn, event, eventId, heard)
  }

  async #whenAllowed(turn: Turn | null, event: JsonObject, eventId: string | null, heard: number): Promise<void> {
    let decided = turn ? ((await turn.raise(event.type === 'response.create' ? 1 : 0)) ?? turn) : await this.#begin()
    // It ended meanwhile.
    if (!(decided instanceof GatewayError) && decided !== this.#turn) decided = await this.#begin()
    if (decided instanceof GatewayError) {
      // A rate is free again soon; a budget isn't, but covers the responses under way.
      const isRate = decided.kind === 'request_limit' || decided.kind === 'token_limit'
      if (!isRate && !this.#turn?.isBusy) return this.#closeWith(decided)
      this.#conversation.tokens -= heard
      return this.#refuse(Object.assign(decided, { eventId }))
    }
    this.#start(decided, event)
  }

  #start(turn: Turn, event: JsonObject): void {
    if (this.#isClosed || this.#client === null) return
    if (event.type === 'response.create') turn.asked++
    this.#send(event)
  }

  /** Replaces names of models, and returns what may not be sent, as a sentence. */
  #adapt(event: JsonObject): string | null {
    for (const settings of [asObject(event.session), asObject(event.response)]) {
      const wrong = settings && this.#adaptSettings(settings)
      if (wrong) return wrong
    }
    return null
  }

  #adaptSettings(settings: JsonObject): string | null {
    const { model, target } = this.#found
    if (settings.model !== undefined) {
      const named = visibleModel(this.#deps.live.snapshot, this.#key, asText(settings.model))
      if (named?.model.facts.id !== model.facts.id) return 'The model of a session is chosen in its URL.'
      settings.model = target.upstreamModel
    }
    if (settings.prompt != null) return 'Stored prompts belong to the account of the provider. Send `instructions`.'
    const foreign = asList(settings.tools).find((tool) => asObject(tool)?.type !== 'function')
    if (foreign !== undefined) return 'Only tools of type `function` are supported.'
    const audio = asObject(settings.audio) ?? {}
    const input = asObject(audio.input) ?? {}
    for (const transcription of [asObject(input.transcription), asObject(settings.input_audio_transcription)]) {
      const named = asText(transcription?.model)
      if (!transcription || named === '') continue
      const known = this.#toUpstreamModel(named)
      if (known === null) return `The model \`${named.slice(0, 100)}\` is not available to this key for transcription.`
      transcription.model = known
    }
    return null
  }

  /** Of another model of the same upstream. */
  #toUpstreamModel(asked: string): string | null {
    const found = visibleModel(this.#deps.live.snapshot, this.#key, asked)
    const { upstream } = this.#found.target
    return found?.targets.find((target) => target.upstream.id === upstream.id)?.upstreamModel ?? null
  }

  #send(event: JsonObject): void {
    this.#upstream.send(JSON.stringify(event))
    if (this.#upstream.bufferedAmount > MAX_WAITING) void this.#closeWith(tooSlow('upstream'))
  }

  /** What both sides send at once is of one turn. */
  #begin(): Promise<Decision<Turn>> {
    if (this.#turn) return Promise.resolve(this.#turn)
    this.#beginning ??= this.#beginTurn()
      .catch(toGatewayError)
      .finally(() => {
        this.#beginning = null
      })
    return this.#beginning
  }

  async #beginTurn(): Promise<Decision<Turn>> {
    if (this.#isClosed) return hasLeft()
    const key = this.#access()
    if (key instanceof GatewayError) return key
    const team = teamOf(this.#deps.live.snapshot, key)
    const { model, used, signal } = this.#found
    const turn = await beginTurn(this.#deps, { key, team, model, used, signal, conversation: this.#conversation })
    if (turn instanceof Turn) this.#turn = turn
    return turn
  }

  /** @param code null if it came to its end. Throws `ledger_unavailable`. */
  #settle(turn: Turn, code: string | null): Promise<void> {
    this.#turn = null
    return turn.settle(code)
  }

  // ----- from the upstream

  #takeFromUpstream(text: string): void | Promise<void> {
    if (this.#isClosed) return
    const event = asObject(tryJson(text))
    if (event === null) return
    const turn = this.#turn
    switch (event.type) {
      case 'session.created':
      case 'session.updated':
      case 'transcription_session.created':
      case 'transcription_session.updated':
        return this.#pass(JSON.stringify(this.#toOwnSession(event)))
      // Of the provider's account, which the keys share.
      case 'rate_limits.updated':
        return
      case 'response.created':
        if (turn === null) return this.#beginUnasked(text)
        turn.asked = Math.max(0, turn.asked - 1)
        turn.running++
        break
      case 'response.output_audio.delta':
      case 'response.audio.delta':
        turn?.spoke(asText(event.delta))
        break
      case 'response.done':
        return this.#respond(event, text)
      case 'conversation.item.input_audio_transcription.completed':
        return this.#transcribe(event, text)
      case 'error':
        return this.#reportError(event)
      default:
        if (typeof event.delta === 'string') turn?.wrote(event.delta)
    }
    this.#pass(text)
  }

  /** The upstream's voice detection started it after the last turn was settled. */
  async #beginUnasked(text: string): Promise<void> {
    const turn = await this.#begin()
    if (turn instanceof GatewayError) {
      this.#upstream.send('{"type":"response.cancel"}')
      return this.#closeWith(turn)
    }
    turn.running++
    this.#pass(text)
  }

  /** None of the responses that were asked for may come. */
  async #reportError(event: JsonObject): Promise<void> {
    const turn = this.#turn
    if (turn !== null && turn.asked > 0) {
      turn.asked = 0
      if (turn.running === 0) await this.#settle(turn, null)
    }
    const error = asObject(event.error)
    const message = this.#scrub(asText(error?.message))
    this.#pass(JSON.stringify(error ? { ...event, error: { ...error, message } } : event))
  }

  async #respond(event: JsonObject, text: string): Promise<void> {
    const turn = this.#turn ?? orThrow(await this.#begin())
    turn.responded(asObject(asObject(event.response)?.usage))
    if (!turn.isBusy) await this.#settle(turn, null)
    this.#pass(text)
  }

  async #transcribe(event: JsonObject, text: string): Promise<void> {
    const used = asObject(event.usage)
    if (used) {
      const turn = this.#turn ?? orThrow(await this.#begin())
      turn.transcribed(used)
      // A session that only transcribes has no responses.
      if (!turn.isBusy && this.#conversation.isTranscription) await this.#settle(turn, null)
    }
    this.#pass(text)
  }

  /** With our name of the model. */
  #toOwnSession(event: JsonObject): JsonObject {
    const session = asObject(event.session)
    if (session === null) return event
    this.#conversation.take(session, asText(event.type))
    return 'model' in session ? { ...event, session: { ...session, model: this.#found.model.facts.id } } : event
  }

  #scrub(text: string): string {
    return toPublic(text, this.#found.target.upstream)
  }

  #pass(text: string): void {
    const client = this.#client
    if (client === null || this.#isClosed) return
    // Zero: Bun keeps no more for it, and has dropped this one.
    const isSent = client.send(text) !== 0
    const waiting = client.getBufferedAmount()
    if (!isSent || waiting > MAX_WAITING || this.#hold(waiting)) void this.#closeWith(tooSlow('client'))
  }

  // ----- ends

  /** Memory for what waits. True if there is none. */
  #hold(bytes: number): boolean {
    if (bytes <= this.#held) return false
    if (this.#found.slot.take(bytes - this.#held)) return true
    this.#held = bytes
    return false
  }

  #refuse(error: Refusal): void {
    this.#pass(toErrorEvent(error, this.#deps.now()))
  }

  #fail(error: unknown): void {
    const failure = error === null ? tooSlow('client') : toGatewayError(error)
    void this.#closeWith(failure)
  }

  async #closeWith(error: GatewayError): Promise<void> {
    if (this.#isClosed) return
    this.#client?.send(toErrorEvent(error, this.#deps.now()))
    await this.#close(error.status < 500 ? 1_008 : 1_011, error.message.slice(0, 120), error.code ?? error.kind)
  }

  async #close(code: number, reason: string, errorCode: string | null): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    clearInterval(this.#timer)
    try {
      await this.#beginning
      if (this.#turn) await this.#settle(this.#turn, errorCode ?? 'stopped')
    } catch (error) {
      this.#client?.send(toErrorEvent(toGatewayError(error), this.#deps.now()))
    } finally {
      this.#upstream.close(1_000)
      this.#client?.close(code, Buffer.byteLength(reason) > 120 ? '' : reason)
      this.#caller.held.dispose()
    }
  }
}

/** What may not be sent is an error of the upstream (RFC 6455, section 7.4). */
const toCode = (code: number): number => {
  if (code === 1_005) return 1_000
  return (code >= 1_000 && code <= 1_014 && code !== 1_004 && code !== 1_006) || (code >= 3_000 && code < 5_000)
    ? code
    : 1_011
}

const hasLeft = () => new GatewayError('client_closed', 'The session is closed.')

type Refusal = GatewayError & { eventId?: string | null }

function toErrorEvent({ type, code, message, param, eventId = null }: Refusal, nowMs: number): string {
  const error = { type, code, message, param, event_id: eventId }
  return JSON.stringify({ type: 'error', event_id: `event_${mintId(nowMs)}`, error })
}

const invalid = (message: string, eventId: string | null) =>
  Object.assign(new GatewayError('invalid_request', message), { eventId })

const tooSlow = (who: 'client' | 'upstream') =>
  new GatewayError('slow_reader', `The ${who} doesn't read what it is sent: more than 16 MiB are waiting.`)
