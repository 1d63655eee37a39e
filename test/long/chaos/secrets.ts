/** Searches for content that may not be stored or logged: secrets of keys and upstreams, prompts, and responses. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { WRONG_KEY } from './client.ts'
import { complain, type Facts } from './facts.ts'
import { PROMPT_MARK } from './plan.ts'
import { CREDENTIALS } from './upstreams.ts'

/** Words that every response with text contains. */
const ANSWER_WORDS = 'w0 w1 '

export function judgeSecrets({ story }: Facts): string[] {
  const { server, secrets, outcomes } = story
  const hidden = [...secrets.values(), WRONG_KEY, ...Object.values(CREDENTIALS)]
  const flaws: string[] = []
  for (const [place, text] of placesOf(server.log(), server.data)) {
    for (const secret of [...hidden, PROMPT_MARK, ANSWER_WORDS]) {
      if (text.includes(secret)) flaws.push(complain(story, null, `no ${secret} in ${place}`, around(text, secret)))
    }
  }
  for (const outcome of outcomes) {
    const said = `${outcome.text} ${JSON.stringify([...outcome.headers])}`
    const told = hidden.find((secret) => said.includes(secret))
    if (told) flaws.push(complain(story, outcome, `no ${told} in an answer`, around(said, told)))
  }
  return flaws
}

function placesOf(log: string, data: string): [string, string][] {
  const files = readdirSync(data, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return [
    ['the log', log],
    ...files.map((file): [string, string] => [file.name, readFileSync(join(file.parentPath, file.name), 'latin1')]),
  ]
}

const around = (text: string, secret: string) =>
  text.slice(Math.max(0, text.indexOf(secret) - 200), text.indexOf(secret) + 200)
