/**
 * A realtime session: a WebSocket between a client and an upstream. A turn lasts from what the client sends to the end of its responses.
 * Each turn is a separate request: limited, recorded before it is sent, and settled before the client gets its end.
 */
import type { ServerWebSocket } from 'bun'
import { type Decision, type ErrorKind, GatewayError, orThrow } from '../domain/error.ts'
import { toRequestId } from '../domain/id.ts'
import { asObject, asText, type JsonObject, tryJson } from '../domain/json.ts'
import type { Key } from '../domain/snapshot.ts'
import { authenticate } from '../keys/token.ts'
import { teamOf, visibleModel } from '../routing/access.ts'
import { modelNotFound } from '../routing/route.ts'
import { toPublic } from '../upstreams/credential-scrubbing.ts'
import { toGatewayError } from './delivery.ts'
import type { Authenticated } from './exchange.ts'
import type { HandleDeps } from './handle.ts'
import { InOrder } from './in-order.ts'
import { Conversation } from './realtime-conversation.ts'
import { invalid, isCharged, type Refusal, SessionModels, toErrorEvent } from './realtime-events.ts'
import type { Found } from './realtime-open.ts'
import { beginTurn, Turn } from './realtime-turn.ts'

export interface RealtimeData {
  open(client: ServerWebSocket<RealtimeData>): void
  message(client: ServerWebSocket<RealtimeData>, text: string | Buffer): void
  close(): void
}

/** Maximum buffer, in bytes, while a turn begins or is settled, or for a slow reader. */
const MAX_WAITING = 16 * 1024 * 1024
const CHECK_MS = 2_000

/** A turn without a response for this long is settled, so that an idle session holds nothing. */
const QUIET_MS = 10_000
const MAX_CHARGED = 100

/** Temporary errors: the event is rejected, and the session continues. */
const PASSING: ReadonlySet<ErrorKind> = new Set([
  ...(['request_limit', 'token_limit', 'over_share', 'overloaded', 'upstream_rate_limited'] as const),
])

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
  readonly #models: SessionModels
  /** IDs of charged responses and transcriptions, since some upstreams report an end twice. */
  readonly #charged = new Set<string>()
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
    this.#conversation = new Conversation(found.target, found.isTranscription)
    this.#models = new SessionModels(deps.live, found.model, found.target)
    const take = (bytes: number) => this.#hold(bytes)
    const fail = (error: unknown) => this.#fail(error)
    this.#fromClient = new InOrder((text) => this.#takeFromClient(text), MAX_WAITING, take, fail)
    this.#fromUpstream = new InOrder((text) => this.#takeFromUpstream(text), MAX_WAITING, take, fail)
    // Events wait until the client is connected.
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

  /** The client couldn't be upgraded. */
  drop(): void {
    void this.#close(1_001, '', null)
  }

  /** After the client disconnects: cancels responses in progress, and reads usage that may be charged. */
  async #leave(): Promise<void> {
    this.#found.controller.abort('disconnected')
    const ms = this.#deps.disconnectedCalls.readOnMs(this.#found.target.upstream)
    await this.#beginning
    if (this.#turn?.isBusy && ms > 0 && !this.#isClosed) {
      if (this.#turn.responses > 0) this.#upstream.send('{"type":"response.cancel"}')
      await Promise.race([this.#ended(), Bun.sleep(ms)])
    }
    await this.#close(1_000, '', 'client_closed')
  }

  async #ended(): Promise<void> {
    while (this.#turn?.isBusy && !this.#isClosed) await Bun.sleep(20)
  }

  /** Ends an idle session if its key is revoked, its model is removed, or the server drains. */
  #check(): void {
    if (this.#isClosed) return
    const turn = this.#turn
    const isResponding = this.#beginning !== null || (turn !== null && turn.responses > 0)
    if (this.#deps.load.isDraining && !isResponding) void this.#close(1_012, 'The server is restarting.', null)
    else if (this.#found.signal.reason === 'stopped') void this.#close(1_012, 'The server is shutting down.', 'stopped')
    else {
      this.#checkAccess()
      const isQuiet = turn !== null && !isResponding && this.#deps.monotonicMs() - turn.lastMs > QUIET_MS
      if (isQuiet && !this.#isClosed) void this.#settle(turn, null).catch((error) => this.#fail(error))
    }
  }

  #checkAccess(): void {
    const access = this.#access()
    if (access instanceof GatewayError) void this.#closeWith(access)
  }

  /** Returns the current key: its limits, budget, and models may change during a session. */
  #access(): Decision<Key> {
    const { snapshot } = this.#deps.live
    const { incoming } = this.#caller
    const key = incoming.owner ?? authenticate(snapshot, incoming, this.#deps.now())
    if (key instanceof GatewayError) return key
    this.#key = key
    const { id } = this.#found.model.facts
    return visibleModel(snapshot, key, id) ? key : modelNotFound(snapshot, key, id, 'model')
  }

  // ----- from the client

  #takeFromClient(text: string): void | Promise<void> {
    if (this.#isClosed || this.#client === null) return
    const event = this.#models.read(text, this.#key)
    if (event instanceof GatewayError) return this.#refuse(event)
    const heard = this.#conversation.add(event)
    const isCreate = event.type === 'response.create'
    const turn = this.#turn
    // Events that cost nothing don't begin a turn.
    if (turn === null ? !isCharged(event) : turn.covers(isCreate)) return this.#start(turn, event)
    return this.#whenAllowed(turn, event, heard)
  }

  async #whenAllowed(turn: Turn | null, event: JsonObject, heard: number): Promise<void> {
    const isCreate = event.type === 'response.create'
    let decided = turn ? ((await turn.raise(isCreate)) ?? turn) : await this.#begin()
    // The turn may have ended in between.
    if (!(decided instanceof GatewayError) && decided !== this.#turn) decided = await this.#begin()
    if (decided instanceof GatewayError) {
      // The reservation still covers responses in progress.
      if (!PASSING.has(decided.kind) && !this.#turn?.isBusy) return this.#closeWith(decided)
      this.#conversation.tokens -= heard
      return this.#refuse(Object.assign(decided, { eventId: asText(event.event_id) || null }))
    }
    this.#start(decided, event)
  }

  #start(turn: Turn | null, event: JsonObject): void {
    if (this.#isClosed || this.#client === null) return
    if (turn && isCharged(event)) turn.says(event.type === 'response.create')
    this.#upstream.send(JSON.stringify(event))
    if (this.#upstream.bufferedAmount > MAX_WAITING) void this.#closeWith(tooSlow('upstream'))
  }

  /** If client and upstream both begin a turn, they share one. */
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

  /** @param code null for a normal end. Throws `ledger_unavailable`. */
  #settle(turn: Turn, code: string | null): Promise<void> {
    this.#turn = null
    this.#found.slot.giveBack()
    this.#held = 0
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
      // They are the provider account's, which keys share.
      case 'rate_limits.updated':
        return
      case 'response.created':
        if (turn === null) return this.#beginUnasked(text)
        turn.responds()
        this.#charged.delete(asText(asObject(event.response)?.id))
        break
      case 'response.output_audio.delta':
      case 'response.audio.delta':
        turn?.spoke(asText(event.delta))
        break
      case 'response.done':
        return this.#respond(event, text)
      case 'input_audio_buffer.committed':
        if (turn !== null && this.#conversation.transcriber !== null) turn.hearing++
        break
      case 'conversation.item.input_audio_transcription.completed':
        return this.#transcribe(event, text)
      case 'conversation.item.input_audio_transcription.failed':
        if (turn !== null) turn.hearing = Math.max(0, turn.hearing - 1)
        break
      case 'error':
        return this.#reportError(event)
      default:
        if (typeof event.delta === 'string' && asText(event.type).startsWith('response.')) turn?.wrote(event.delta)
    }
    this.#pass(text)
  }

  /** The upstream's voice detection began a response after the last turn was settled. */
  async #beginUnasked(text: string): Promise<void> {
    const turn = await this.#begin()
    if (turn instanceof GatewayError) {
      this.#upstream.send('{"type":"response.cancel"}')
      return this.#closeWith(turn)
    }
    turn.responds()
    this.#pass(text)
  }

  /** After an error, requested responses may never come. */
  async #reportError(event: JsonObject): Promise<void> {
    const turn = this.#turn
    if (turn !== null && turn.asked > 0) {
      turn.asked = 0
      if (!turn.isBusy) await this.#settle(turn, null)
    }
    const error = asObject(event.error)
    const message = this.#scrub(asText(error?.message))
    this.#pass(JSON.stringify(error ? { ...event, error: { ...error, message } } : event))
  }

  async #respond(event: JsonObject, text: string): Promise<void> {
    const response = asObject(event.response) ?? {}
    if (this.#isFirst(asText(response.id))) {
      const turn = this.#turn ?? orThrow(await this.#begin())
      turn.responded(response)
      if (!turn.isBusy) await this.#settle(turn, null)
    }
    this.#pass(text)
  }

  async #transcribe(event: JsonObject, text: string): Promise<void> {
    if (this.#isFirst(asText(event.item_id) && `${event.item_id} ${event.content_index}`)) {
      const turn = this.#turn ?? orThrow(await this.#begin())
      turn.transcribed(asObject(event.usage))
      if (!turn.isBusy && (turn.hasResponded || this.#found.isTranscription)) await this.#settle(turn, null)
    }
    this.#pass(text)
  }

  #isFirst(id: string): boolean {
    if (this.#charged.has(id)) return false
    if (this.#charged.size >= MAX_CHARGED) this.#charged.clear()
    if (id !== '') this.#charged.add(id)
    return true
  }

  /** Uses the catalog's model names. */
  #toOwnSession(event: JsonObject): JsonObject {
    const session = asObject(event.session)
    if (session === null) return event
    this.#conversation.take(session)
    return { ...event, session: this.#models.toOwn(session) }
  }

  #scrub(text: string): string {
    return toPublic(text, this.#found.target.upstream)
  }

  #pass(text: string): void {
    const client = this.#client
    if (client === null || this.#isClosed) return
    // Zero: Bun's send buffer is full, and this event is lost.
    const isSent = client.send(text) !== 0
    const waiting = client.getBufferedAmount()
    if (!isSent || waiting > MAX_WAITING || this.#hold(waiting)) void this.#closeWith(tooSlow('client'))
  }

  // ----- ends

  /** Reserves memory for waiting events. True if there is not enough. */
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

/** Replaces codes that may not be sent by 1011, an upstream error (RFC 6455, section 7.4). */
const toCode = (code: number): number => {
  if (code === 1_005) return 1_000
  return (code >= 1_000 && code <= 1_014 && code !== 1_004 && code !== 1_006) || (code >= 3_000 && code < 5_000)
    ? code
    : 1_011
}

const hasLeft = () => new GatewayError('client_closed', 'The session is closed.')

const tooSlow = (who: 'client' | 'upstream') =>
  new GatewayError('slow_reader', `The ${who} doesn't read what it is sent: more than 16 MiB are waiting.`)
