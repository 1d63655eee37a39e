/** `POST /v1/chat/completions`. The body stays raw: Elysia would drop fields that its schema does not name. */
import { Elysia } from 'elysia'
import type { Key } from '../domain/snapshot.ts'
import { chat } from '../formats/chat/chat.ts'
import { type HandleDeps, handle } from '../gateway/handle.ts'
import { type IpOf, toToken } from '../keys/token.ts'
import { bearerToken, type Listener } from './instance.ts'

/** 255 is the most that Bun takes. */
export const IDLE_SECONDS = 255

/**
 * @param app the instance that listens: as part of Elysia's context its server would cost every request a property.
 * @param ipOf where a request comes from.
 * @param owner who asks, where that needs no proof.
 */
export const chatController = (deps: HandleDeps, app: Listener, ipOf: IpOf, owner: Key | null = null) =>
  new Elysia({ name: 'chat' }).use(bearerToken()).post(
    '/v1/chat/completions',
    ({ request, headers, bearer }) =>
      handle(deps, chat, {
        request,
        headers,
        owner,
        ipOf,
        token: toToken(bearer, headers),
        liftIdleLimit: () => app.server?.timeout(request, 0),
        restoreIdleLimit: () => app.server?.timeout(request, IDLE_SECONDS),
      }),
    { parse: 'none' },
  )
