/** Messages between two processes of one server, in order in each direction. */

declare const BODY: unique symbol
declare const REPLY: unique symbol

/** Type of message. `Reply` is `void` for messages without a reply. Bodies are JSON. */
export interface Topic<Body, Reply = void> {
  readonly name: string
  readonly [BODY]?: Body
  readonly [REPLY]?: Reply
}

export const topic = <Body, Reply = void>(name: string): Topic<Body, Reply> => ({ name })

export interface Link {
  /** Sends all messages of an event loop turn together. Drops them once the other process has ended. */
  tell<Body>(about: Topic<Body>, body: Body): void
  /**
   * Rejects with a `LinkLost` if the other process ends first or takes longer than `patienceMs`, and with a `LinkError` if its handler throws.
   * A message that timed out is still handled later, before newer ones.
   */
  ask<Body, Reply>(about: Topic<Body, Reply>, body: Body, patienceMs?: number): Promise<Reply>
  /** One handler per topic. Messages that arrive earlier are kept for it. */
  on<Body, Reply>(about: Topic<Body, Reply>, handle: (body: Body) => Reply | Promise<Reply>): void
  /** Resolves once the other process has ended, or the link is closed. */
  readonly ended: Promise<void>
  close(): void
}

export class LinkLost extends Error {}
export class LinkError extends Error {}
