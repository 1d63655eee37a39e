/** Serves an API description: created on first use, and compressed if the client accepts it. */
import { once } from '../domain/once.ts'

export function createDescription(make: () => Promise<object>) {
  const packed = once(() => pack(make))
  return async (request: Request, headers: Record<string, string> = {}): Promise<Response> => {
    const { text, gzipped } = await packed.get()
    const [body, encoding] = accepts(request, 'gzip') ? [gzipped, { 'content-encoding': 'gzip' }] : [text, {}]
    return new Response(body, {
      headers: { 'content-type': 'application/json', vary: 'accept-encoding', ...encoding, ...headers },
    })
  }
}

async function pack(make: () => Promise<object>) {
  const text = JSON.stringify(await make())
  return { text, gzipped: Bun.gzipSync(text) }
}

export const accepts = (request: Request, encoding: string): boolean =>
  new RegExp(`(^|[,\\s])${encoding}\\s*(,|$|;(?!\\s*q=0(\\.0*)?\\s*(,|$)))`, 'i').test(
    request.headers.get('accept-encoding') ?? '',
  )
