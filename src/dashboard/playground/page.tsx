/** The playground: chat with any model that one may use, or with two of them side by side. */
import { useEffect, useState } from 'preact/hooks'
import { query, setQuery, toHref } from '../address/address.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { toCurl, toGo, toJavaScript, toPython, toTypeScript } from '../snippets/snippets.ts'
import { Button, Code } from '../ui/controls.tsx'
import { announce, Empty, Overlay, Problem } from '../ui/notice.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { Composer, ModelsPicker, toComposer } from './composer.tsx'
import { stopAll } from './run.ts'
import { SettingsFields } from './settings-fields.tsx'
import {
  bringBack,
  clear,
  cleared,
  draft,
  isAnswering,
  named,
  read,
  settings,
  thread,
  toChosen,
  useModels,
} from './state.ts'
import { toCodeBody } from './thread.ts'
import { ThreadView } from './thread-view.tsx'

export function PlaygroundPage() {
  const { data: models, problem, reload } = useModels()
  const [isCode, setCode] = useState(false)
  useEffect(() => {
    document.addEventListener('keydown', stopByKey)
    return () => document.removeEventListener('keydown', stopByKey)
  }, [])
  const chosen = toChosen(models ?? [])
  useEffect(() => keepNamed(chosen), [`${chosen}`, query.value, thread.value.length > 0])
  const actions = (
    <>
      <Button icon="code" disabled={chosen.length === 0} onClick={() => setCode(true)}>
        As code
      </Button>
      <Button icon="remove" disabled={thread.value.length === 0} onClick={clearAll}>
        Clear
      </Button>
    </>
  )
  return (
    <Page title="Playground" actions={actions}>
      {problem && <Problem of={problem} retry={reload} />}
      {models !== null && chosen.length === 0 && <NoModels />}
      {models !== null && chosen.length > 0 && (
        <div class="play">
          <p class="dim">
            Nothing here is kept: once this tab is closed or loaded anew, it is gone. What it costs is on record.
          </p>
          <section class="panel play-setup" aria-label="What is asked of whom">
            <ModelsPicker models={models} chosen={chosen} />
            <SettingsFields />
          </section>
          {thread.value.length === 0 ? <Nothing /> : <ThreadView models={models} chosen={chosen} />}
          <Composer models={models} chosen={chosen} />
        </div>
      )}
      {isCode && <CodeDialog chosen={chosen} onClose={() => setCode(false)} />}
    </Page>
  )
}

/** Whoever comes by a link that names no model goes on with those that they had; and a thread stays with those that it was begun with. */
function keepNamed(chosen: readonly string[]): void {
  const isNamed = query.value.has('model')
  if (isNamed || (named.value.length === 0 && thread.value.length > 0)) named.value = chosen
  const [model, beside = null] = named.value
  if (model !== undefined && !isNamed) setQuery({ model, beside })
}

function stopByKey(event: KeyboardEvent): void {
  if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return
  if (isAnswering.value) stopAll()
}

function clearAll(): void {
  clear()
  announce('The thread is cleared.')
  toComposer()
}

function undoClear(): void {
  bringBack()
  toComposer()
}

const Nothing = () => (
  <div class="play-nothing">
    <p>What you write goes to the model, and its answer comes here as it is written.</p>
    {cleared.value !== null && cleared.value.length > 0 && (
      <Button icon="again" onClick={undoClear}>
        Bring back what was cleared
      </Button>
    )}
  </div>
)

const NoModels = () => (
  <Empty title="No model to try">
    <p>
      {may('editor') ? (
        <>
          Once there is a model, it can be tried here. <a href={toHref('/models')}>Look at the models</a>
        </>
      ) : (
        'Once your team may use a model, it can be tried here. An owner or an editor says which.'
      )}
    </p>
  </Empty>
)

const SECRET = 'YOUR_KEY'

function CodeDialog({ chosen, onClose }: { chosen: readonly string[]; onClose: () => void }) {
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
