/** A task per agent as tool calls: two reads at once, a write, an edit, the end. */
import { expect } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { toClaudeCode, toCodex } from '../../../src/dashboard/snippets/snippets.ts'
import type { RealAgent } from './install.ts'
import type { Turn } from './speakers.ts'
import type { Work } from './stage.ts'

export interface Task {
  endpoint: string
  words: string[]
  hello: string[]
  toTurns(folder: string): Turn[]
  /** The start script that the dashboard shows. */
  toScript(access: { baseUrl: string; secret: string; model: string }): string
}

const CHANGED = 'The word is heron.\nThe colour is blue.\n'
const ANSWER = 'heron, "quoted" — żółw\n'
const DONE = 'All is done.'

const PROMPT = 'Read notes.txt, write its word into answer.txt, and make the colour blue.'

const READ = 'First I read it.'
const WRITE = 'Now I write the word.'
const EDIT = 'Last, the colour.'

const PATCH = `apply_patch <<'EOF'
*** Begin Patch
*** Update File: notes.txt
@@
-The colour is red.
+The colour is blue.
*** End Patch
EOF
`

export const TASKS: Readonly<Record<RealAgent, Task>> = {
  claude: {
    endpoint: 'messages',
    toScript: toClaudeCode,
    words: ['-p', PROMPT, '--permission-mode', 'acceptEdits', '--allowedTools', 'Bash(wc *)'],
    hello: ['-p', 'Hello there!'],
    toTurns: (folder) => [
      {
        reasoning: READ,
        text: 'I read it.',
        calls: [
          { name: 'Read', input: { file_path: join(folder, 'notes.txt') } },
          { name: 'Bash', input: { command: 'wc -l notes.txt', description: 'Count lines' } },
        ],
      },
      {
        reasoning: WRITE,
        calls: [{ name: 'Write', input: { file_path: join(folder, 'answer.txt'), content: ANSWER } }],
      },
      {
        reasoning: EDIT,
        calls: [
          {
            name: 'Edit',
            input: { file_path: join(folder, 'notes.txt'), old_string: 'is red', new_string: 'is blue' },
          },
        ],
      },
      { text: DONE },
    ],
  },
  codex: {
    endpoint: 'responses',
    toScript: toCodex,
    words: ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', PROMPT],
    hello: ['exec', '--skip-git-repo-check', 'Hello there!'],
    toTurns: () => [
      {
        reasoning: READ,
        text: 'I read it.',
        calls: [
          { name: 'exec_command', input: { cmd: 'cat notes.txt' } },
          { name: 'exec_command', input: { cmd: 'wc -l notes.txt' } },
        ],
      },
      {
        reasoning: WRITE,
        calls: [{ name: 'exec_command', input: { cmd: `cat > answer.txt <<'EOF'\n${ANSWER}EOF` } }],
      },
      { reasoning: EDIT, calls: [{ name: 'exec_command', input: { cmd: PATCH } }] },
      { text: DONE },
    ],
  },
}

/** Checks that the task is done, and its key is no longer valid. */
export function expectDone(folder: string, { code, stdout, stderr, key }: Work): void {
  expect({ code, stdout: stdout.trim(), stderr }).toMatchObject({ code: 0, stdout: DONE })
  expect(readFileSync(join(folder, 'answer.txt'), 'utf8')).toBe(ANSWER)
  expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toBe(CHANGED)
  expect(key).toBe('revoked')
}
