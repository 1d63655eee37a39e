/** The description of an API as it is served: the same for everybody, made when somebody first asks for it, compressed for whoever takes that. */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { accepts } from './accepts.ts'

/** @param make gives the document. */
export function createDescription(make: () => Promise<object>) {
  let making: ReturnType<typeof pack> | null = null
  return async (request: Request, headers: Record<string, string> = {}): Promise<Response> => {
    making ??= pack(make)
    const { text, packed } = await making
    const [body, encoding] = accepts(request, 'gzip') ? [packed, { 'content-encoding': 'gzip' }] : [text, {}]
    return new Response(body, {
      headers: { 'content-type': 'application/json', vary: 'accept-encoding', ...encoding, ...headers },
    })
  }
}

async function pack(make: () => Promise<object>) {
  const text = JSON.stringify(await make())
  return { text, packed: await promisify(gzip)(text) }
}
