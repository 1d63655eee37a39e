/** The request as code, to go on with elsewhere. */
import { useState } from 'preact/hooks'
import { toHref } from '../address/address.ts'
import { toCurl, toGo, toJavaScript, toPython, toTypeScript } from '../snippets/chat.ts'
import { Code } from '../ui/copy.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { toCodeBody } from './request.ts'
import { draft, read, settings, thread } from './state.ts'

const SECRET = 'YOUR_KEY'

export function CodeDialog({ chosen, onClose }: { chosen: readonly string[]; onClose: () => void }) {
  const [side, setSide] = useState<0 | 1>(0)
  const { fields, problems } = read.value
  const said = { system: settings.value.system, thread: thread.value, side }
  const body = toCodeBody(chosen[side] ?? '', said, draft.value, fields)
  const call = { baseUrl: `${location.origin}/v1`, secret: SECRET, body }
  const tabs = [
    { title: 'curl', text: toCurl(call) },
    { title: 'TypeScript', text: toTypeScript(call) },
    { title: 'Python', text: toPython(call) },
    { title: 'JavaScript', text: toJavaScript(call) },
    { title: 'Go', text: toGo(call) },
  ].map(({ title, text }) => ({ title, content: <Code text={text} label={title} /> }))
  return (
    <Overlay title="As code" onClose={onClose}>
      <div class="form play-code">
        {chosen.length > 1 && (
          <div class="field">
            <select aria-label="Model" onChange={({ currentTarget: { value } }) => setSide(value === '0' ? 0 : 1)}>
              {chosen.map((slug, at) => (
                <option key={at} value={at} selected={at === side}>
                  {slug}
                </option>
              ))}
            </select>
          </div>
        )}
        {Object.keys(problems).length > 0 && <p class="hint wrong">What is to be mended on the page is left out.</p>}
        <Tabs label="Languages" tabs={tabs} />
        <p class="hint">
          Put a key in the place of <code>{SECRET}</code>: the one that this page goes by has no secret.{' '}
          <a href={toHref('/keys/new')}>New key</a>
        </p>
      </div>
    </Overlay>
  )
}
