/** `POST /v1/chat/completions`. The body stays raw: the walk reads, checks and answers it (platform-notes 3.1). */
import { Elysia } from 'elysia'
import { type WalkDeps, walk } from '../chat/walk.ts'
import { bearerToken, toToken } from './bearer.ts'

export const chatController = (deps: WalkDeps) =>
  new Elysia({ name: 'chat' }).use(bearerToken()).post(
    '/v1/chat/completions',
    ({ request, bearer, server }) =>
      walk(deps, {
        request,
        token: toToken(bearer, request.headers),
        lift: () => server?.timeout(request, 0),
      }),
    { parse: 'none' },
  )
