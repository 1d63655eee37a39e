/** Server settings: current values, their sources, and, for owners, editing. */

import type { ComponentChildren } from 'preact'
import { count } from '../../domain/text.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { Button, ButtonLink } from '../ui/controls.tsx'
import { useEdit } from '../ui/edit.tsx'
import { Form, SwitchField, TextField } from '../ui/form.tsx'
import { Overlay, RowsRoom, tell, Unread } from '../ui/notice.tsx'
import { moveBetween } from '../ui/table.tsx'
import { SubPages } from '../ui/tabs.tsx'
import { editSetting, readSetting, type Setting, useSettings } from './data.ts'
import { toGroups, toPlace } from './words.ts'

export function SettingsPage() {
  const { data: settings, problem, reload } = useSettings()
  const waiting = settings?.filter(({ pending }) => pending).length ?? 0
  const open = settings?.find(({ name }) => name === query.value.get('setting'))
  return (
    <SettingsFrame title="Settings" actions={<ButtonLink href={toHref('/reference')}>API reference</ButtonLink>}>
      <Unread of={settings} problem={problem} retry={reload}>
        <RowsRoom />
      </Unread>
      {waiting > 0 && (
        <p class="note">
          <span class="state warn">{count(waiting, 'change')}</span> {waiting === 1 ? 'takes' : 'take'} effect after a
          restart.
        </p>
      )}
      <div class="sections">
        {toGroups(settings ?? []).map(({ title, settings: ofGroup }) => (
          <section key={title}>
            <h2>{title}</h2>
            <ul class="settings" onKeyDown={moveBetween('li')}>
              {ofGroup.map((setting) => (
                <Line key={setting.name} of={setting} />
              ))}
            </ul>
          </section>
        ))}
      </div>
      {open && <SettingDialog key={open.name} of={open} onClose={() => setQuery({ setting: null })} />}
    </SettingsFrame>
  )
}

const Line = ({ of: setting }: { of: Setting }) => (
  <li>
    <a class="row-link" href={toHrefWith({ setting: setting.name })}>
      {setting.name}
    </a>
    <span class="what dim">{setting.description}.</span>
    <span class="value">
      {setting.value === null ? <span class="dim">none</span> : <code>{setting.value}</code>}
      {setting.pending && (
        <>
          {' '}
          <span class="state warn">
            after restart: <code>{setting.stored ?? setting.default ?? 'none'}</code>
          </span>
        </>
      )}
    </span>
    <span class="from dim">{toPlace(setting)}</span>
  </li>
)

interface SettingDialogProps {
  of: Setting
  onClose(): void
}

const SettingDialog = ({ of: setting, onClose }: SettingDialogProps) => (
  <Overlay title={setting.name} onClose={onClose}>
    <p>{setting.description}.</p>
    <dl class="facts">
      <dt>Current value</dt>
      <dd>{setting.value === null ? 'none' : <code>{setting.value}</code>}</dd>
      <dt>Source</dt>
      <dd>{toPlace(setting)}</dd>
      <dt>Default</dt>
      <dd>{setting.default === null ? 'none' : <code>{setting.default}</code>}</dd>
    </dl>
    {may('owner') && <Edit of={setting} onClose={onClose} />}
  </Overlay>
)

function Edit({ of, onClose }: SettingDialogProps) {
  const { name } = of
  // The API names the setting in a refusal.
  const toValues = ({ stored, value }: Setting): Record<string, string> => ({ [name]: stored ?? value ?? '' })
  const form = useEdit({ of, toValues, read: () => readSetting(name), subject: 'settings' }, (values) =>
    save(values[name]?.trim() ?? ''),
  )
  const setting = form.base.value
  const { stored, from } = setting
  const save = async (text: string | null) => {
    await editSetting(form.base.value, text)
    tell(isOverruled ? `Saved, but ${toPlace(setting)} overrides it.` : 'Saved. Restart the server to apply.')
    onClose()
  }
  const toDefault = () => save(null).catch((error: Error) => tell(error.message, 'bad'))
  const isOverruled = from === 'flag' || from === 'environment'
  const isChanged = (form.values.value[name]?.trim() ?? '') !== (stored ?? setting.value ?? '')
  return (
    <>
      {isOverruled && (
        <p class="note">
          The server was started with {toPlace(setting)}, which overrides this setting. To use the value set here,
          remove it and restart.
        </p>
      )}
      <Form
        of={form}
        submit="Save"
        isReady={isChanged}
        otherActions={
          stored !== null && (
            <Button kind="quiet" onClick={toDefault}>
              Reset to default
            </Button>
          )
        }
      >
        {setting.expected === 'on or off' ? (
          <SwitchField
            of={form}
            name={name}
            label="Enabled"
            hint="Takes effect after a restart."
            values={['off', 'on']}
          />
        ) : (
          <TextField
            of={form}
            name={name}
            label="New value"
            hint={`Enter ${setting.expected}. Takes effect after a restart.`}
            isCode
            autoFocus
          />
        )}
      </Form>
    </>
  )
}

interface SettingsFrameProps {
  title: string
  actions?: ComponentChildren
  children: ComponentChildren
}

const ALL = [
  ['/settings', 'Settings', 'viewer'],
  ['/settings/server', 'Server', 'viewer'],
  ['/settings/alerts', 'Alerts', 'viewer'],
  ['/settings/backups', 'Backups', 'owner'],
  ['/settings/tokens', 'Tokens', 'owner'],
] as const

export const SettingsFrame = ({ children, ...page }: SettingsFrameProps) => (
  <Page {...page}>
    <SubPages
      label="Settings"
      pages={ALL.flatMap(([path, title, least]) => (may(least) ? [[path, title] as const] : []))}
    />
    {children}
  </Page>
)
