/** `POST /v1/chat/completions`. The body stays raw: the walk reads, checks and answers it (platform-notes 3.1). */
import { Elysia } from 'elysia'
import { type WalkDeps, walk } from '../chat/walk.ts'
import { bearerToken, toToken } from './bearer.ts'

export interface ChatDeps extends WalkDeps {
  /** Lifts the idle limit of a request's connection. */
  liftIdleLimit(request: Request): void
}

export const chatController = (deps: ChatDeps) =>
  new Elysia({ name: 'chat' }).use(bearerToken()).post(
    '/v1/chat/completions',
    ({ request, headers, bearer }) =>
      walk(deps, {
        request,
        headers,
        token: toToken(bearer, headers),
        lift: () => deps.liftIdleLimit(request),
      }),
    { parse: 'none' },
  )
