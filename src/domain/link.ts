/** Messages between two processes of one server, in order in each direction. */

declare const BODY: unique symbol
declare const REPLY: unique symbol

/** What a message is about. `Reply` is `void` for what is only told. Bodies are JSON. */
export interface Topic<Body, Reply = void> {
  readonly name: string
  readonly [BODY]?: Body
  readonly [REPLY]?: Reply
}

export const topic = <Body, Reply = void>(name: string): Topic<Body, Reply> => ({ name })

export interface Link {
  /** Sent with all that the same event loop turn sends. Dropped once the other process has ended. */
  tell<Body>(about: Topic<Body>, body: Body): void
  /**
   * Rejects with a `LinkLost` if the other process ends first or takes longer than `patienceMs`, and with a `LinkError` if its handler throws. It handles a
   * message that it took too long for later, before those sent since.
   */
  ask<Body, Reply>(about: Topic<Body, Reply>, body: Body, patienceMs?: number): Promise<Reply>
  /** One handler per topic. What arrives before is kept for it. */
  on<Body, Reply>(about: Topic<Body, Reply>, handle: (body: Body) => Reply | Promise<Reply>): void
  /** Resolves once the other process has ended, or the link is closed. */
  readonly ended: Promise<void>
  close(): void
}

export class LinkLost extends Error {}
export class LinkError extends Error {}
